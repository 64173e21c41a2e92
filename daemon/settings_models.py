"""What can be set: the models, their defaults and bounds."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from daemon.settings_folders import refuse_loops
from daemon.settings_types import (
    READABLE_PATTERNS,
    AbsolutePath,
    EngineName,
    FromJson,
    Gigabytes,
    Mode,
    Patterns,
    Seconds,
    Texts,
)

ENV_PREFIX = "SCANMD_"
INSTALLED_STATE = Path("/var/lib/scanmd")
INSTALLED_CACHE = Path("/var/cache/scanmd")
SECRETS = frozenset({"pdf_passwords"})
"""Settings whose values are never shown."""


class AfterDelivery(StrEnum):
    """What happens to a source once its `.mmd` is delivered."""

    KEEP = "keep"
    ARCHIVE = "archive"
    DELETE = "delete"


def _field(default: object, text: str) -> Any:  # noqa: ANN401 - as pydantic's own Field
    """A field with the text that the README and `config show` give for it."""
    return Field(default=default, description=text)


class Inbox(BaseModel):
    """One watched folder and its own rules."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: AbsolutePath = Field(description="The watched folder.")
    outbox: AbsolutePath | None = _field(
        None, "Where the `.mmd` goes, sub-folders mirrored; empty: beside the source."
    )
    recursive: bool = _field(True, "Sub-folders are read too.")
    patterns: Patterns = _field(
        READABLE_PATTERNS, "File names to read (`*`, `?`, `[…]`), in any case of letters."
    )
    ignore: Patterns = _field((), "File names to leave alone, over and above the usual junk.")
    watch: Literal["auto", "native", "polling"] = _field(
        "auto", "How changes are noticed; `auto` decides by the file system."
    )
    after: AfterDelivery = _field(
        AfterDelivery.KEEP, "What becomes of a source once its `.mmd` is delivered."
    )
    archive: AbsolutePath | None = _field(None, "Where sources go with `after: archive`.")
    text_layer: Literal["auto", "force_ocr", "only_text"] = _field(
        "auto", "A PDF's own text: taken where it is good, never, or nothing but it."
    )
    dpi: Annotated[int, Field(ge=50, le=600)] = _field(
        200, "Resolution at which PDF pages are drawn for reading."
    )
    page_separator: Literal["comment", "rule", "none"] = _field(
        "comment", "What stands between two pages in the `.mmd`."
    )
    mark_uncertain: Annotated[float, Field(gt=0, lt=1)] | None = _field(
        None, "Words read with less confidence than this are marked; empty: never."
    )
    profile: Literal["accurate", "fast"] = _field(
        "accurate", "How the CPU engine trades time against accuracy."
    )
    pre_correction: bool = _field(
        True, "Turn, straighten and clean pages before reading when that helps."
    )
    file_mode: Mode | None = _field(
        None, 'Octal rights of the `.mmd`, such as "0640"; empty: 0666 less `umask`.'
    )
    group: Annotated[str, Field(min_length=1)] | None = _field(
        None, "Group that the `.mmd` is given to; the service must be a member."
    )
    error_notes: bool = _field(True, "Write `<name>.error.txt` for a file that cannot be read.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.after is AfterDelivery.ARCHIVE and self.archive is None:
            raise ValueError("after: archive needs an archive folder, and archive is not set")
        if self.archive is not None and self.after is not AfterDelivery.ARCHIVE:
            raise ValueError(
                f'archive = "{self.archive}" has no effect with after: {self.after}; '
                "set after: archive or remove archive"
            )
        if not self.patterns:
            raise ValueError("patterns = [] reads nothing; remove it or name a pattern")
        return self


def _systemd_or_xdg(variable: str, xdg: str, fallback: str, installed: Path) -> Path:
    """The directory systemd made for the service, else the user's own.

    A command typed beside an installed service means the service's folder, which
    systemd names to the service only. Whoever may not write there gets their own.
    """
    given = os.environ.get(variable, "").split(":")[0]
    if given:
        return Path(given)
    if not os.environ.get(xdg) and os.access(installed, os.W_OK):
        return installed
    base = os.environ.get(xdg, "")
    # The XDG specification: a relative path is invalid and is to be ignored.
    return (Path(base) if base.startswith("/") else Path.home() / fallback) / "scanmd"


def _state_dir() -> Path:
    return _systemd_or_xdg("STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state", INSTALLED_STATE)


def _cache_dir() -> Path:
    return _systemd_or_xdg("CACHE_DIRECTORY", "XDG_CACHE_HOME", ".cache", INSTALLED_CACHE)


class Settings(BaseSettings):
    """Everything an administrator can set.

    Made from keyword arguments alone; `daemon.settings.load_settings` puts
    file, environment and command line together.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    inboxes: Annotated[tuple[Inbox, ...], FromJson, Field(min_length=1)] = Field(
        description="The watched folders, each with its own rules (below)."
    )
    engine: EngineName = _field(
        "auto", "`auto`, `rapid` (CPU), `deepseek` (GPU), or `package.module:Class`."
    )
    state_dir: AbsolutePath = Field(
        default_factory=_state_dir,
        description="Ledger and work; default: the service's own, else `$XDG_STATE_HOME/scanmd`.",
    )
    cache_dir: AbsolutePath = Field(
        default_factory=_cache_dir,
        description="Weights; default: the service's own, else `$XDG_CACHE_HOME/scanmd`.",
    )
    settle_short_s: Seconds = _field(3.0, "Quiet time of a file that is closed and whole.")
    settle_long_s: Seconds = _field(120.0, "Quiet time of a file of which that cannot be seen.")
    rescan_interval_s: Seconds = _field(300.0, "Every inbox is searched completely this often.")
    poll_interval_s: Seconds = _field(
        10.0, "How often a polled inbox (network share) is looked at."
    )
    max_attempts: Annotated[int, Field(ge=1, le=100)] = _field(
        3, "Attempts at one document before it is put on the failed list."
    )
    retry_delay_s: Seconds = _field(30.0, "Pause before the second attempt; it doubles from there.")
    page_time_limit_s: Seconds = _field(
        300.0, "A page that takes longer is given up and marked as a gap."
    )
    engine_load_limit_s: Seconds = _field(300.0, "Loading the engine may take this long.")
    engine_idle_unload_s: Seconds = _field(
        600.0, "The engine gives back its memory after this long without work."
    )
    reader_memory_gb: Gigabytes = _field(4.0, "The reading process may use this much memory.")
    max_page_mpx: Annotated[float, Field(gt=0, le=2000, allow_inf_nan=False)] = _field(
        150.0, "Largest page, in megapixels."
    )
    max_pages: Annotated[int, Field(ge=1, le=1_000_000)] = _field(
        5000, "Most pages of one document."
    )
    max_file_gb: Gigabytes = _field(2.0, "Largest file.")
    render_timeout_s: Seconds = _field(60.0, "Drawing one PDF page may take this long.")
    render_memory_gb: Gigabytes = _field(2.0, "Drawing one PDF page may use this much memory.")
    pdf_passwords: Annotated[Texts, Field(repr=False)] = _field(
        (), "Passwords to try on locked PDFs. Never shown."
    )
    pdf_passwords_file: AbsolutePath | None = _field(
        None, "A file with one more password per line (a systemd credential, say)."
    )
    umask: Mode = _field(0o027, "Octal umask of everything that is written.")
    work_max_age_days: Annotated[float, Field(gt=0, le=365, allow_inf_nan=False)] = _field(
        3.0, "Work files older than this are purged."
    )
    ledger_keep_days: Annotated[float, Field(ge=1, le=36500, allow_inf_nan=False)] = _field(
        365.0, "Finished jobs are forgotten after this long."
    )
    min_free_gb: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] = _field(
        0.2, "Reading pauses while a disk has less room than this."
    )
    log_format: Literal["auto", "human", "json"] = _field(
        "auto", "`auto`: for people on a terminal, JSON elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = _field(
        "info", "The least important messages that are logged."
    )
    enable_visualization: bool = _field(
        False, "Draw the found blocks into pictures, to see why a page was read so."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments only: the loader has merged the sources and knows each origin."""
        return (init_settings,)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.settle_short_s > self.settle_long_s:
            raise ValueError(
                f"settle_short_s = {self.settle_short_s:g} is longer than "
                f"settle_long_s = {self.settle_long_s:g}; the short quiet time must not be"
            )
        if self.render_timeout_s > self.page_time_limit_s:
            raise ValueError(
                f"render_timeout_s = {self.render_timeout_s:g} is longer than "
                f"page_time_limit_s = {self.page_time_limit_s:g}, within which it must fit"
            )
        refuse_loops(self)
        return self
