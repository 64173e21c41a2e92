"""The settings: YAML file < environment (`SCANMD_…`) < command line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class AfterDelivery(StrEnum):
    """What happens to a source once its `.mmd` is delivered."""

    KEEP = "keep"
    ARCHIVE = "archive"
    DELETE = "delete"


class Inbox(BaseModel):
    """One watched folder and its own rules. None: the top-level default counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path
    outbox: Path | None = None
    recursive: bool = True
    patterns: tuple[str, ...] = ("*",)
    ignore: tuple[str, ...] = ()
    watch: Literal["auto", "native", "polling"] = "auto"
    after: AfterDelivery = AfterDelivery.KEEP
    archive: Path | None = None
    text_layer: Literal["auto", "force_ocr", "only_text"] = "auto"
    dpi: Annotated[int, Field(ge=50, le=600)] = 200
    page_separator: Literal["comment", "rule", "none"] = "comment"
    mark_uncertain: Annotated[float, Field(gt=0, lt=1)] | None = None
    profile: Literal["accurate", "fast"] = "accurate"
    pre_correction: bool = True
    file_mode: int | None = None
    group: str | None = None
    error_notes: bool = True


class Settings(BaseSettings):
    """Everything an administrator can set."""

    model_config = SettingsConfigDict(env_prefix="SCANMD_", extra="forbid", frozen=True)

    inboxes: tuple[Inbox, ...]
    engine: Literal["auto", "rapid", "deepseek"] = "auto"
    state_dir: Path
    """Ledger and work folder live here."""
    cache_dir: Path
    settle_short_s: float = 3.0
    settle_long_s: float = 120.0
    rescan_interval_s: float = 300.0
    poll_interval_s: float = 10.0
    max_attempts: int = 3
    retry_delay_s: float = 30.0
    page_time_limit_s: float = 300.0
    engine_load_limit_s: float = 300.0
    engine_idle_unload_s: float = 600.0
    reader_memory_gb: float = 4.0
    max_page_mpx: float = 150.0
    max_pages: int = 5000
    max_file_gb: float = 2.0
    render_timeout_s: float = 60.0
    render_memory_gb: float = 2.0
    pdf_passwords: tuple[str, ...] = ()
    umask: int = 0o027
    work_max_age_days: float = 3.0
    ledger_keep_days: float = 365.0
    min_free_gb: float = 0.2
    log_format: Literal["auto", "human", "json"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    enable_visualization: bool = False
