"""Settings: what they mean, and the one sentence when they cannot be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.errors import ConfigError
from daemon.settings import AfterDelivery, Inbox, Settings, load_settings, shown_settings
from daemon.settings_docs import BEGIN, END, settings_tables, with_settings_tables
from daemon.settings_file import SettingsFile

REPO = Path(__file__).parents[3]
ONE = "inboxes: [{path: /srv/scans}]\n"


def load(tmp_path, text, environ=None, **overrides):
    file = tmp_path / "scanmd.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, overrides, environ or {})


def refusal(tmp_path, text, environ=None, **overrides):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, environ, **overrides)
    assert caught.value.exit_code == 78
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_command_line_beats_environment_beats_file(tmp_path):
    text = f"{ONE}engine: rapid\nmax_pages: 7\nlog_level: error\n"
    environ = {"SCANMD_MAX_PAGES": "8", "SCANMD_LOG_LEVEL": "warning"}
    loaded = load(tmp_path, text, environ, log_level="debug", engine=None)
    settings = loaded.settings
    assert (settings.engine, settings.max_pages, settings.log_level) == ("rapid", 8, "debug")
    assert loaded.origins["engine"] == f"{tmp_path}/scanmd.yaml:2"
    assert loaded.origins["max_pages"] == "environment variable SCANMD_MAX_PAGES"
    assert loaded.origins["log_level"] == "command line"
    assert loaded.origins["umask"] == "default"


def test_the_environment_alone_is_enough(monkeypatch, tmp_path):
    monkeypatch.setattr("daemon.settings_loading.SYSTEM_CONFIG", tmp_path / "none")
    environ = {
        "SCANMD_INBOXES": '[{"path": "/srv/a", "patterns": ["*.pdf"]}, {"path": "/srv/b"}]',
        "SCANMD_INBOXES__1__DPI": "300",
        "SCANMD_INBOXES__1__IGNORE": '["draft*"]',
        "SCANMD_PDF_PASSWORDS": '["a", "b"]',
        "SCANMD_ENGINE": "",
    }
    settings = load_settings(None, {}, environ).settings
    assert [inbox.dpi for inbox in settings.inboxes] == [200, 300]
    assert settings.inboxes[1].ignore == ("draft*",)
    assert settings.pdf_passwords == ("a", "b")
    assert settings.engine == "auto"


def test_one_inbox_of_the_file_is_changed_from_the_environment(tmp_path):
    loaded = load(tmp_path, ONE, {"SCANMD_INBOXES__0__RECURSIVE": "no"})
    assert loaded.settings.inboxes[0].recursive is False
    assert loaded.settings.inboxes[0].path == Path("/srv/scans")
    assert loaded.origins["inboxes[0].path"].endswith("scanmd.yaml:1")


@pytest.mark.parametrize("mode", ['"0640"', "0640", "640", "0o640"])
def test_modes_are_octal_however_they_are_written(tmp_path, mode):
    settings = load(tmp_path, f"inboxes: [{{path: /srv/a, file_mode: {mode}}}]").settings
    assert settings.inboxes[0].file_mode == 0o640


def test_passwords_stay_the_text_that_was_typed(tmp_path):
    settings = load(tmp_path, f"{ONE}pdf_passwords: [0123, 1e3, no, '']").settings
    assert settings.pdf_passwords == ("0123", "1e3", "no", "")


def test_passwords_are_read_from_a_file_and_never_shown(tmp_path):
    secret = tmp_path / "passwords"
    secret.write_text("erstes\n\nzweites wort\n", encoding="utf-8")
    loaded = load(tmp_path, f"{ONE}pdf_passwords: [geheim]\npdf_passwords_file: {secret}\n")
    assert loaded.settings.pdf_passwords == ("geheim", "erstes", "zweites wort")
    shown = " ".join(row.value for row in shown_settings(loaded))
    assert "geheim" not in shown + repr(loaded)
    assert "erstes" not in shown + repr(loaded)
    assert "(3 hidden)" in shown


def test_wrong_passwords_are_not_repeated_in_the_error(tmp_path):
    said = refusal(tmp_path, f"{ONE}pdf_passwords: geheim")
    assert "geheim" not in said
    assert said.startswith("scanmd.yaml:2: pdf_passwords: it must be a list")


def test_rules_are_shared_by_anchor(tmp_path):
    text = "inboxes:\n- &a {path: /srv/a, dpi: 300}\n- {path: /srv/b, <<: *a}\n"
    first, second = load(tmp_path, text).settings.inboxes
    assert (first.dpi, second.dpi, second.path) == (300, 300, Path("/srv/b"))


def test_directories_come_from_systemd_else_from_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/x/state")
    monkeypatch.setenv("CACHE_DIRECTORY", "/var/cache/scanmd:/var/cache/other")
    settings = load(tmp_path, ONE).settings
    assert settings.state_dir == Path("/home/x/state/scanmd")
    assert settings.cache_dir == Path("/var/cache/scanmd")
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/scanmd")
    assert load(tmp_path, ONE).settings.state_dir == Path("/var/lib/scanmd")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "scanmd.yaml: the setting inboxes is missing, and it has no default."),
        ("inboxes: []", "scanmd.yaml:1: inboxes = []: it must not be empty."),
        ("inboxes: [{path: scans}]", 'inboxes[0].path = "scans": it must be a whole path'),
        ("inboxes: [{pat: /a}]", 'there is no setting "pat"; did you mean path? (1 more error)'),
        (f"{ONE}engin: rapid", 'scanmd.yaml:2: there is no setting "engin"; did you mean engine?'),
        (f"{ONE}dpi: 300", '"dpi" is a setting of an inbox; move it below inboxes.'),
        (f"{ONE}engine: tess", 'scanmd.yaml:2: engine = "tess": it must be one of auto, rapid'),
        ("inboxes:\n- path: /a\n  dpi: 900", 'scanmd.yaml:3: inboxes[0].dpi = "900": it must'),
        (f"{ONE}umask: 0980", 'umask = "0980": it must be an octal number'),
        (f"{ONE}umask: 7777", 'umask = "7777": it must be an octal number from 0000 to 0777'),
        (f"{ONE}max_pages: many", 'max_pages = "many": it must be a whole number.'),
        (f"{ONE}min_free_gb: .nan", 'min_free_gb = ".nan": it must be a number.'),
        (f"{ONE}settle_short_s: nan", 'settle_short_s = "nan": it must be an ordinary number.'),
        (f"{ONE}log_level: loud", "log_level = \"loud\": it must be 'debug', 'info', 'warning' or"),
        (f"{ONE}settle_short_s: 500", "settle_short_s = 500 is longer than settle_long_s = 120"),
        (f"{ONE}max_attempts:", "max_attempts = null: it must be a whole number."),
        (ONE * 2, 'scanmd.yaml:2: the key "inboxes" stands here a second time.'),
        ("a: [", "scanmd.yaml:1: this is not valid YAML"),
        ("- a", 'the file must consist of "key: value" lines.'),
        (f"{ONE}x: !!python/object/apply:os.system [id]", "is a YAML tag"),
        ("inboxes: [{path: /a, after: archive}]", "after: archive needs an archive folder"),
        ("inboxes: [{path: /a, archive: /b}]", 'archive = "/b" has no effect with after: keep'),
        ("inboxes: [{path: /a}, {path: /a/b}]", 'inboxes[1].path = "/a/b" lies inside inboxes[0]'),
        ("inboxes: [{path: /a/b}, {path: /a}]", 'inboxes[0].path = "/a/b" lies inside inboxes[1]'),
        ("inboxes: [{path: /a}, {path: /a}]", "is the same folder as inboxes[0].path"),
        ("inboxes: [{path: /a, outbox: /a/out}]", 'inboxes[0].outbox = "/a/out" lies inside'),
        ("inboxes: [{path: /a, outbox: /b/c}, {path: /b}]", "lies inside inboxes[1].path"),
        ("inboxes: [{path: /a, after: archive, archive: /a/old}]", "inboxes[0].archive"),
        ("inboxes: [{path: /a}]\nstate_dir: /a/s", "our own files would be taken for scans"),
        ("inboxes: [{path: /a/../b}]", 'it must not contain ".."'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, text, said):
    message = refusal(tmp_path, text)
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"SCANMD_FOO": "1"}, 'environment variable SCANMD_FOO: there is no setting "foo"'),
        ({"SCANMD_INBOXES": "/srv"}, "environment variable SCANMD_INBOXES: it must be a JSON list"),
        ({"SCANMD_INBOXES__4__DPI": "90"}, "there is no inbox number 4"),
        ({"SCANMD_INBOXES__X__DPI": "90"}, "write it like SCANMD_INBOXES__0__DPI."),
        ({"SCANMD_INBOXES__0__DPI": "9"}, 'SCANMD_INBOXES__0__DPI: inboxes[0].dpi = "9"'),
        ({"SCANMD_PDF_PASSWORDS": "[x"}, "SCANMD_PDF_PASSWORDS: pdf_passwords: it starts like"),
    ],
)
def test_what_is_wrong_in_the_environment_is_said_too(tmp_path, environ, said):
    assert said in refusal(tmp_path, ONE, environ)


def test_variables_that_are_no_settings_of_ours_are_left_alone(tmp_path):
    environ = {"SCANMD_TEST_KILL_AT": "x", "SCANMD_CONFIG": "/none", "PATH": "/bin"}
    assert load(tmp_path, ONE, environ).settings.engine == "auto"


def test_a_non_recursive_inbox_may_have_its_outbox_below(tmp_path):
    text = "inboxes: [{path: /a, recursive: false, outbox: /a/texts}]"
    assert load(tmp_path, text).settings.inboxes[0].outbox == Path("/a/texts")


def test_an_own_engine_is_named_by_module_and_class(tmp_path):
    assert (
        load(tmp_path, f"{ONE}engine: tests.engines:Slow").settings.engine == "tests.engines:Slow"
    )


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: the settings file cannot be read: No such"):
        load_settings(tmp_path / "none.yaml", {}, {})


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"x" * 300_000])
def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path, raw):
    file = tmp_path / "scanmd.yaml"
    file.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"UTF-8|larger than"):
        load_settings(file, {}, {})


def test_a_yaml_bomb_is_refused_before_it_unfolds(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "too large or nested too deeply" in refusal(tmp_path, "\n".join(lines))
    assert "nested too deeply" in refusal(tmp_path, "a: &a [*a]")
    assert "nested too deeply" in refusal(tmp_path, "[" * 3000)


@given(st.text(max_size=200))
def test_any_text_is_settings_or_one_sentence(text):
    try:
        values = SettingsFile(Path("/etc/scanmd.yaml"), text).values
    except ConfigError:
        return
    assert isinstance(values, dict)


def test_settings_made_in_code_do_not_look_at_the_environment(monkeypatch):
    monkeypatch.setenv("SCANMD_ENGINE", "deepseek")
    inbox = Inbox(path=Path("/a"), after=AfterDelivery.DELETE, file_mode=0o600)
    settings = Settings(inboxes=(inbox,), state_dir=Path("/s"), cache_dir=Path("/c"), umask=0o077)
    assert (settings.engine, settings.umask) == ("auto", 0o077)


def test_the_shipped_file_names_every_setting_with_its_default(tmp_path):
    text = (REPO / "config/scanmd.yaml").read_text(encoding="utf-8")
    given_keys = re.findall(r"^ *(?:- |# )*([a-z_]+):(?: |$)", text, flags=re.MULTILINE)
    assert {*Settings.model_fields, *Inbox.model_fields} <= set(given_keys)
    assert load(tmp_path, text).settings.inboxes[0].path == Path("/srv/scans")
    # Everything that is commented out is the default, or an example that is valid.
    examples = ("outbox", "archive", "group", "state_dir", "cache_dir", "file_mode")
    fields = ({*Settings.model_fields, *Inbox.model_fields}) - set(examples)
    active = re.sub(
        r"^( *)# ([a-z_]+):( .+)$",
        lambda line: f"{line[1]}{line[2]}:{line[3]}" if line[2] in fields else line[0],
        text,
        flags=re.MULTILINE,
    )
    assert active.count("\n# ") < text.count("\n# ")
    assert load(tmp_path, active).settings == load(tmp_path, text).settings


def test_the_readme_lists_every_setting():
    readme = REPO / "README.md"
    if not readme.exists():
        pytest.skip("there is no README.md yet")
    text = readme.read_text(encoding="utf-8")
    assert with_settings_tables(text) == text, "python -m daemon.settings_docs README.md"


def test_the_table_replaces_what_stands_between_the_markers():
    renewed = with_settings_tables(f"a\n{BEGIN}\nold\n{END}\nb\n")
    assert renewed == f"a\n{BEGIN}\n\n{settings_tables()}\n\n{END}\nb\n"
    for name in (*Settings.model_fields, *Inbox.model_fields):
        assert f"| `{name}` |" in renewed


def test_a_typed_command_means_the_installed_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`scanmd status` beside the service looks into the service's folder."""
    for name in ("STATE_DIRECTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    installed = tmp_path / "var"
    monkeypatch.setattr("daemon.settings_models.INSTALLED_STATE", installed)
    assert Settings(inboxes=[{"path": "/srv/in"}]).state_dir != installed
    installed.mkdir()
    assert Settings(inboxes=[{"path": "/srv/in"}]).state_dir == installed
