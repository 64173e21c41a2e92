"""The settings file as plain text values, each with the line it stands on.

Every scalar stays the text that was typed (`0640`, `no`, `007`); the models decide
what it means. That keeps octal modes octal and passwords passwords, and makes a
value mean the same in the file and in the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import yaml

from daemon.errors import ConfigError

FILE_SIZE_MAX_BYTES = 256 * 1024
NODES_MAX = 20_000
"""Values after all `*alias`es are written out; bounds what a YAML bomb can cost."""
DEPTH_MAX = 12
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map"))


class SettingsFile:
    """A parsed settings file: `values`, and `line_of` the path of each of them."""

    def __init__(self, path: Path, text: str) -> None:
        """Parse `text`, the content of `path`.

        Raises:
            ConfigError: It is no YAML mapping, or uses what settings never need.
        """
        self.path = path
        self.line_of: dict[tuple[str | int, ...], int] = {}
        self._nodes = 0
        try:
            # BaseLoader builds no objects and resolves no types.
            root = yaml.compose(text, Loader=yaml.BaseLoader)
            values = {} if root is None else self._value(root, ())
        except yaml.YAMLError as error:
            raise ConfigError(f"{self._at(error)}: this is not valid YAML: {_why(error)}") from None
        except RecursionError:
            raise ConfigError(f"{path}: the settings are nested too deeply.") from None
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise ConfigError(f'{path}: the file must consist of "key: value" lines.')
        self.values: dict[str, Any] = values

    def _value(self, node: yaml.Node, at: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - any YAML value
        self._nodes += 1
        if self._nodes > NODES_MAX or len(at) > DEPTH_MAX:
            self._refuse(node, "the settings are too large or nested too deeply")
        if node.tag not in _PLAIN_TAGS:
            self._refuse(node, f'"{node.tag}" is a YAML tag, and settings need none: remove it')
        self.line_of.setdefault(at, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*at, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.style is None and node.value in _NULLS:
            return None
        return node.value

    def _mapping(self, node: yaml.MappingNode, at: tuple[str | int, ...]) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(key, "a key must be a word")
            if key.value in seen:
                self._refuse(key, f'the key "{key.value}" stands here a second time')
            seen.add(key.value)
        values: dict[str, Any] = {}
        # What is taken over comes first: own keys win, wherever "<<" stands.
        for key, value in sorted(node.value, key=lambda pair: pair[0].value != "<<"):
            if key.value == "<<":
                values |= self._merged(value, at)
                continue
            self.line_of[(*at, key.value)] = key.start_mark.line + 1
            values[key.value] = self._value(value, (*at, key.value))
        return values

    def _merged(self, node: yaml.Node, at: tuple[str | int, ...]) -> dict[str, Any]:
        """`<<: *anchor`: the rules of one inbox taken over by another."""
        value = self._value(node, at)
        if not isinstance(value, dict):
            self._refuse(node, '"<<" must name one anchor of "key: value" lines')
        return dict(value)

    def _refuse(self, node: yaml.Node, why: str) -> NoReturn:
        raise ConfigError(f"{self.path}:{node.start_mark.line + 1}: {why}.")

    def _at(self, error: yaml.YAMLError) -> str:
        mark = getattr(error, "problem_mark", None)
        return f"{self.path}:{mark.line + 1}" if mark else str(self.path)


def read_settings_file(path: Path) -> SettingsFile:
    """The settings file at `path`.

    Raises:
        ConfigError: It cannot be read, or is no YAML that settings can be.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: the settings file cannot be read: {error.strerror}. "
            "Name another one with --config, or correct its path and rights."
        ) from None
    if len(raw) > FILE_SIZE_MAX_BYTES:
        raise ConfigError(
            f"{path}: the settings file is larger than {FILE_SIZE_MAX_BYTES // 1024} KiB."
        )
    try:
        return SettingsFile(path, raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(
            f"{path}: the settings file is not UTF-8 text; save it as UTF-8."
        ) from None


def _why(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    return f"{problem or 'it cannot be parsed'}."
