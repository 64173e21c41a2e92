"""Logging: for people on a terminal, JSON under systemd; never any document text."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Literal

import structlog

from daemon.output_files import shown


def set_up(
    style: Literal["auto", "human", "json"],
    level: str,
    on_overflow: Callable[[], None] | None = None,
) -> None:
    """Send structlog's events to stderr.

    Args:
        style: `auto` is human on a terminal and JSON elsewhere.
        level: The least important level that is shown.
        on_overflow: Called when watchdog says that the kernel dropped events.
    """
    human = style == "human" or (style == "auto" and sys.stderr.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if human
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not human),
            _printable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logger = logging.getLogger("watchdog")
    logger.propagate = False
    logger.addHandler(_Overflow(on_overflow) if on_overflow else logging.NullHandler())


def _printable(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """File names may hold escapes that would act on a terminal."""
    for key, value in event.items():
        if isinstance(value, bytes | os.PathLike):
            event[key] = shown(os.fsencode(value))
        elif isinstance(value, str) and not value.isprintable():
            event[key] = "".join(c if c.isprintable() else "�" for c in value)
    return event


class _Overflow(logging.Handler):
    """Turns watchdog's only sign of a lost event into a rescan."""

    def __init__(self, on_overflow: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_overflow = on_overflow

    def emit(self, record: logging.LogRecord) -> None:
        if "overflow" in record.getMessage().lower():
            self._on_overflow()
