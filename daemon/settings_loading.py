"""File, environment and command line put together, with the origin of each value.

The settings file is the first of: `--config`, `$SCANMD_CONFIG`,
`/etc/scanmd/scanmd.yaml`, `$XDG_CONFIG_HOME/scanmd/scanmd.yaml`. The first two must
exist; the others may be missing, for the environment can hold everything.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from daemon.errors import ConfigError
from daemon.settings_file import read_settings_file
from daemon.settings_models import ENV_PREFIX, SECRETS, Inbox, Settings
from daemon.settings_types import sentence, show_octal

SYSTEM_CONFIG = Path("/etc/scanmd/scanmd.yaml")
CONFIG_VARIABLE = "SCANMD_CONFIG"
TEST_PREFIX = "SCANMD_TEST_"
"""Variables of the project's own tests; not settings."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in force, and where each one came from."""

    settings: Settings
    origins: dict[str, str]
    """`engine` or `inboxes[0].dpi` → "default", "FILE:LINE", "environment variable
    NAME" or "command line"."""
    config: Path | None
    """The settings file that was read."""


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One line of `scanmd config show`."""

    key: str
    value: str
    origin: str


def load_settings(
    config: Path | None = None,
    overrides: Mapping[str, Any] = {},
    environ: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """The settings in force. Looks at no folder: see `check_folders`.

    Args:
        config: The settings file, if named on the command line.
        overrides: Settings from the command line, by key; None values are skipped.
        environ: The environment; by default that of the process.

    Raises:
        ConfigError: One sentence with key, value and origin.
    """
    environ = os.environ if environ is None else environ
    layers = _Layers()
    path = find_config(config, environ)
    if path is not None:
        file = read_settings_file(path)
        layers.values = file.values
        layers.origins = {_key(at): f"{path}:{line}" for at, line in file.line_of.items() if at}
    layers.add_environment(environ)
    layers.add_overrides(overrides)
    try:
        settings = Settings(**layers.values)
    except ValidationError as error:
        raise ConfigError(_first_sentence(error, layers.origins, path)) from None
    settings = _with_password_file(settings, layers.origins)
    return LoadedSettings(settings, _all_origins(settings, layers.origins), path)


def find_config(config: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The settings file to read; None if there is none in the usual places."""
    if config is not None:
        return config
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE])
    if SYSTEM_CONFIG.exists():
        return SYSTEM_CONFIG
    home = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    user = Path(home) / "scanmd/scanmd.yaml"
    return user if user.is_absolute() and user.exists() else None


def shown_settings(loaded: LoadedSettings) -> list[ShownSetting]:
    """Every setting as JSON, with its origin; passwords only counted."""
    rows = []
    for name in Settings.model_fields:
        value = getattr(loaded.settings, name)
        if name == "inboxes":
            for index, inbox in enumerate(value):
                for field in Inbox.model_fields:
                    key = f"inboxes[{index}].{field}"
                    rows.append(ShownSetting(key, _text(field, getattr(inbox, field)),
                                             loaded.origins[key]))  # fmt: skip
        else:
            rows.append(ShownSetting(name, _text(name, value), loaded.origins[name]))
    return rows


class _Layers:
    """Values of the lower layers, overwritten by those of the upper ones."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}

    def add_environment(self, environ: Mapping[str, str]) -> None:
        names = [
            name for name in environ
            if name.startswith(ENV_PREFIX) and not name.startswith(TEST_PREFIX)
            and name != CONFIG_VARIABLE and environ[name] != ""
        ]  # fmt: skip
        # Shorter first, so that SCANMD_INBOXES does not wipe SCANMD_INBOXES__0__DPI.
        for name in sorted(names, key=lambda name: (name.count("__"), name)):
            key, *rest = name.removeprefix(ENV_PREFIX).lower().split("__")
            origin = f"environment variable {name}"
            if key not in Settings.model_fields:
                raise ConfigError(f"{origin}: {_unknown(key, Settings.model_fields)}")
            if rest:
                self._set_in_inbox(rest, environ[name], origin)
            else:
                self._replace(key, _parsed(key, environ[name], origin), origin)

    def add_overrides(self, overrides: Mapping[str, Any]) -> None:
        for key, value in overrides.items():
            if value is not None:
                self._replace(key, value, "command line")

    def _replace(self, key: str, value: Any, origin: str) -> None:  # noqa: ANN401 - any setting
        for old in [old for old in self.origins if old == key or old.startswith(f"{key}[")]:
            del self.origins[old]
        self.values[key] = value
        self.origins[key] = origin
        if key == "inboxes" and isinstance(value, list | tuple):
            for index, inbox in enumerate(value):
                for field in inbox if isinstance(inbox, Mapping) else ():
                    self.origins[f"inboxes[{index}].{field}"] = origin

    def _set_in_inbox(self, rest: list[str], value: str, origin: str) -> None:
        inboxes = self.values.get("inboxes")
        if len(rest) != 2 or not rest[0].isdecimal() or not isinstance(inboxes, list | None):
            raise ConfigError(f"{origin}: write it like SCANMD_INBOXES__0__DPI.")
        inboxes = list(inboxes or [])
        index = int(rest[0])
        if index > len(inboxes):
            raise ConfigError(
                f"{origin}: there is no inbox number {index}; they count from 0 to "
                f"{len(inboxes) - 1}."
            )
        known = dict(inboxes[index]) if index < len(inboxes) else {}
        inboxes[index : index + 1] = [known | {rest[1]: value}]
        self.values["inboxes"] = inboxes
        self.origins[f"inboxes[{index}].{rest[1]}"] = origin


def _parsed(key: str, text: str, origin: str) -> Any:  # noqa: ANN401 - any JSON value
    """Inboxes are merged before validation, so their JSON is read here."""
    if key != "inboxes":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(
            f'{origin}: it must be a JSON list such as [{{"path": "/srv/scans"}}].'
        ) from None


def _first_sentence(error: ValidationError, origins: Mapping[str, str], path: Path | None) -> str:
    """The first error; the number of others, if there are any."""
    # A misspelt key is also a missing one; the misspelling says more.
    errors = sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
    first: dict[str, Any] = dict(errors[0])
    at: tuple[str | int, ...] = errors[0]["loc"]
    key = _key(at)
    where = _origin(key, origins) or str(path or "")
    if first["type"] == "extra_forbidden":
        fields = Inbox.model_fields if at[0] == "inboxes" else Settings.model_fields
        text = f"{where}: {_unknown(str(at[-1]), fields)}" if where else _unknown(key, fields)
    elif first["type"] == "value_error" and (not at or isinstance(at[-1], int)):
        # A contradiction between two settings names both itself.
        text = ": ".join(filter(None, [where, key, f"{first['ctx']['error']}."]))
    else:
        text = sentence(
            first, key=key, where=where, secret=bool(SECRETS.intersection(map(str, at)))
        )
    more = len(errors) - 1
    return f"{text} ({more} more error{'s' * (more > 1)})" if more else text


def _origin(key: str, origins: Mapping[str, str]) -> str:
    """The origin of the setting, else of the nearest one that contains it."""
    while key and key not in origins:
        cut = max(key.rfind("."), key.rfind("["))
        key = key[: max(cut, 0)]
    return origins.get(key, "")


def _unknown(key: str, fields: Mapping[str, Any]) -> str:
    if key in Inbox.model_fields and fields is Settings.model_fields:
        return f'"{key}" is a setting of an inbox; move it below inboxes.'
    near = difflib.get_close_matches(key, fields, n=1)
    hint = f"did you mean {near[0]}?" if near else "remove it; the README lists all settings."
    return f'there is no setting "{key}"; {hint}'


def _key(at: tuple[str | int, ...]) -> str:
    """`("inboxes", 0, "dpi")` → `inboxes[0].dpi`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in at]
    return "".join(parts).lstrip(".")


def _with_password_file(settings: Settings, origins: Mapping[str, str]) -> Settings:
    path = settings.pdf_passwords_file
    if path is None:
        return settings
    where = f'{_origin("pdf_passwords_file", origins)}: pdf_passwords_file = "{path}"'
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{where}: the file cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: the file is not UTF-8 text.") from None
    more = tuple(line for line in lines if line)
    return settings.model_copy(update={"pdf_passwords": settings.pdf_passwords + more})


def _all_origins(settings: Settings, origins: Mapping[str, str]) -> dict[str, str]:
    keys = [name for name in Settings.model_fields if name != "inboxes"]
    result = {key: origins.get(key, "default") for key in keys}
    for index in range(len(settings.inboxes)):
        for name in Inbox.model_fields:
            key = f"inboxes[{index}].{name}"
            result[key] = origins.get(key, "default")
    return result


def _text(name: str, value: Any) -> str:  # noqa: ANN401 - any setting
    if name in SECRETS:
        return f"({len(value)} hidden)" if value else "[]"
    if name in ("umask", "file_mode") and value is not None:
        return f'"{show_octal(value)}"'
    return json.dumps(value, default=str, ensure_ascii=False)
