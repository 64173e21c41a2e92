from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daemon import output_files
from daemon.delivery import (
    Beside,
    deliver,
    find_delivered,
    remove_error_note,
    write_error_note,
)
from daemon.errors import DeliveryError, NoSpace, OutputTaken, SourceBusy
from daemon.job import Job, JobState
from daemon.ledger import Ledger
from daemon.output_names import parse_header
from daemon.settings import Inbox
from tests.ledgers import arrival, claimed, inbox_at, sha256


class Office:
    """An inbox, a ledger, and the daemon's steps from a file to its text."""

    def __init__(self, root: Path, ledger: Ledger, **rules: object) -> None:
        self.root = root
        self.inbox = inbox_at(root / "in", **rules)
        self.ledger = ledger

    def drop(self, name: str | bytes, content: bytes = b"scan") -> Path:
        path = self.inbox.path / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def read(self, source: Path) -> Job:
        return claimed(self.ledger, source)

    def deliver(self, job: Job, text: str = "text\n", beside: Beside | None = None) -> Path:
        work = self.root / f"work-{job.id}.md"
        work.write_text(text)
        output = deliver(job, self.inbox, lambda _: work, self.ledger, beside=beside or Beside())
        self.ledger.finish(job.id, JobState.DONE, output=os.fsencode(output))
        return output

    def process(self, source: Path, text: str = "text\n", beside: Beside | None = None) -> Path:
        return self.deliver(self.read(source), text, beside)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger.open(tmp_path / "state" / "ledger.sqlite3")) as ledger:
        yield ledger


@pytest.fixture
def office(tmp_path: Path, ledger: Ledger) -> Office:
    return Office(tmp_path, ledger)


def body(output: Path) -> str:
    """What follows the header."""
    head, _, text = output.read_bytes().partition(b"\n")
    assert parse_header(head + b"\n") is not None
    return text.decode()


def names_in(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


# Where to, and called what


def test_the_text_stands_beside_its_source_and_says_where_it_is_from(office: Office) -> None:
    output = office.process(office.drop("scan.pdf", b"A"), "# Title\n")
    assert output == office.inbox.path / "scan.mmd"
    assert body(output) == "# Title\n"
    header = parse_header(output.read_bytes())
    assert header is not None
    assert (header.source, header.sha256) == (b"scan.pdf", sha256(b"A"))
    assert names_in(office.inbox.path) == {"scan.pdf", "scan.mmd"}


def test_an_outbox_mirrors_the_folders_of_its_inbox(tmp_path: Path, ledger: Ledger) -> None:
    outbox = tmp_path / "out"
    outbox.mkdir()
    office = Office(tmp_path, ledger, outbox=outbox)
    office.inbox.path.chmod(0o555)
    office.inbox.path.chmod(0o755)
    output = office.process(office.drop("2026/may/scan.pdf"))
    assert output == outbox / "2026" / "may" / "scan.mmd"
    assert names_in(office.inbox.path / "2026" / "may") == {"scan.pdf"}


@pytest.mark.parametrize(
    "name", [b"r\xe9sum\xe9.pdf", "🧾.pdf".encode(), b"two\nlines.pdf", b"a" * 251 + b".pdf"]
)
def test_report_28_any_name_that_a_file_can_have_gets_its_text(office: Office, name: bytes) -> None:
    figures = office.root / "figures"
    figures.mkdir()
    (figures / "page-0001-figure-1.png").write_bytes(b"PNG")
    linked: list[str] = []

    def render(assets_name: str) -> Path:
        linked.append(assets_name)
        work = office.root / "work.md"
        work.write_text(f"![]({assets_name}/page-0001-figure-1.png)\n", encoding="utf-8")
        return work

    job = office.read(office.drop(name))
    output = deliver(job, office.inbox, render, office.ledger, beside=Beside(figures))
    assert output.is_file()
    assert (output.parent / linked[0] / "page-0001-figure-1.png").is_file()


# Collisions


def test_report_23_another_document_of_the_same_name_does_not_replace_the_first(
    office: Office,
) -> None:
    first = office.process(office.drop("scan.pdf", b"first"), "first\n")
    source = office.inbox.path / "scan.pdf"
    source.unlink()
    office.ledger.mark_gone(os.fsencode(source))
    second = office.process(office.drop("scan.pdf", b"second"), "second\n")
    assert second.name == f"scan~{sha256(b'second')[:8]}.mmd"
    assert (body(first), body(second)) == ("first\n", "second\n")


def test_two_sources_with_one_stem_both_get_their_text(office: Office) -> None:
    outputs = {
        office.process(office.drop("a.pdf", b"1"), "1\n"): "1\n",
        office.process(office.drop("a.tif", b"2"), "2\n"): "2\n",
        office.process(office.drop("a.jpg", b"2"), "3\n"): "3\n",
    }
    assert len(outputs) == 3
    assert all(body(output) == text for output, text in outputs.items())


def test_a_changed_source_replaces_its_own_text(office: Office) -> None:
    source = office.drop("scan.pdf", b"old")
    first = office.process(source, "old\n")
    source.write_bytes(b"new, longer")
    second = office.process(source, "new\n")
    assert first == second
    assert body(second) == "new\n"
    assert names_in(office.inbox.path) == {"scan.pdf", "scan.mmd"}


def test_a_changed_source_replaces_its_own_text_where_that_had_to_go(office: Office) -> None:
    (office.inbox.path / "scan.mmd").write_text("mine")
    source = office.drop("scan.pdf", b"old")
    first = office.process(source, "old\n")
    source.write_bytes(b"new, longer")
    assert office.process(source, "new\n") == first
    assert names_in(office.inbox.path) == {"scan.pdf", "scan.mmd", first.name}


def test_a_text_that_somebody_corrected_is_never_replaced(office: Office) -> None:
    source = office.drop("scan.pdf", b"old")
    edited = office.process(source, "old\n")
    edited.write_text(edited.read_text() + "my correction\n")
    source.write_bytes(b"new, longer")
    second = office.process(source, "new\n")
    assert second.name == f"scan~{sha256(b'new, longer')[:8]}.mmd"
    assert "my correction" in edited.read_text()
    third_content = b"newer, still longer"
    source.write_bytes(third_content)
    assert office.process(source, "newer\n") == second, "its own last text"
    assert "my correction" in edited.read_text()


@pytest.mark.parametrize("what", ["file", "folder", "link", "broken link", "pipe"])
def test_whatever_stands_under_the_name_is_left_alone(office: Office, what: str) -> None:
    target = office.inbox.path / "scan.mmd"
    elsewhere = office.root / "secret.txt"
    elsewhere.write_text("secret")
    match what:
        case "file":
            target.write_text("mine")
        case "folder":
            target.mkdir()
        case "link":
            target.symlink_to(elsewhere)
        case "broken link":
            target.symlink_to(office.root / "nowhere")
        case "pipe":
            os.mkfifo(target)
    before = target.lstat()
    output = office.process(office.drop("scan.pdf"))
    assert output.name == f"scan~{sha256(b'scan')[:8]}.mmd"
    assert target.lstat().st_ino == before.st_ino
    assert elsewhere.read_text() == "secret"
    assert not (office.root / "nowhere").exists()


def test_a_name_taken_at_the_last_moment_is_left_to_whoever_took_it(office: Office) -> None:
    work = office.root / "work.md"
    asked: list[str] = []

    def render(assets_name: str) -> Path:
        asked.append(assets_name)
        if len(asked) == 1:
            (office.inbox.path / "scan.mmd").write_text("somebody else")
        work.write_text("text\n")
        return work

    job = office.read(office.drop("scan.pdf"))
    output = deliver(job, office.inbox, render, office.ledger)
    hashed = f"scan~{sha256(b'scan')[:8]}"
    assert output.name == hashed + ".mmd"
    assert asked == ["scan.assets", hashed + ".assets"], "links follow the name"
    assert (office.inbox.path / "scan.mmd").read_text() == "somebody else"
    assert names_in(office.inbox.path) == {"scan.pdf", "scan.mmd", output.name}


def test_an_edit_during_the_rendering_is_noticed(office: Office) -> None:
    source = office.drop("scan.pdf", b"old")
    first = office.process(source, "old\n")
    source.write_bytes(b"new, longer")
    job = office.read(source)
    work = office.root / "work.md"

    def render(_: str) -> Path:
        if "correction" not in first.read_text():
            first.write_text("correction")
        work.write_text("new\n")
        return work

    output = deliver(job, office.inbox, render, office.ledger)
    assert output != first
    assert first.read_text() == "correction"


def test_somebody_who_keeps_taking_names_ends_the_attempt_not_the_daemon(office: Office) -> None:
    job = office.read(office.drop("scan.pdf"))

    def render(assets_name: str) -> Path:
        (office.inbox.path / assets_name).with_suffix(".mmd").write_text("mine")
        work = office.root / "work.md"
        work.write_text("text\n")
        return work

    with pytest.raises(OutputTaken, match="keep taking"):
        deliver(job, office.inbox, render, office.ledger)


def test_the_same_stem_in_two_inboxes_with_one_outbox(tmp_path: Path, ledger: Ledger) -> None:
    outbox = tmp_path / "out"
    outbox.mkdir()
    first = Office(tmp_path / "1", ledger, outbox=outbox)
    second = Office(tmp_path / "2", ledger, outbox=outbox)
    one = first.process(first.drop("scan.pdf", b"same"))
    two = second.process(second.drop("scan.pdf", b"same"))
    assert one != two
    assert names_in(outbox) == {one.name, two.name}


def test_on_a_share_that_ignores_case_two_names_are_one(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look-up in the inbox is folded to lower case, as such a share does it."""

    def folding(function: Callable[..., object]) -> Callable[..., object]:
        def folded(name: object, *args: object, **options: object) -> object:
            if isinstance(name, bytes) and name.endswith(b".mmd"):
                name = name.lower()
            return function(name, *args, **options)

        return folded

    one = office.process(office.drop("scan.pdf", b"1"), "1\n")
    monkeypatch.setattr(os, "open", folding(os.open))
    monkeypatch.setattr(os, "stat", folding(os.stat))
    two = office.process(office.drop("SCAN.pdf", b"2"), "2\n")
    assert body(one) == "1\n"
    assert two.name == f"SCAN~{sha256(b'2')[:8]}.mmd"


# Killed, forgotten, touched


def test_a_delivery_killed_before_its_commit_is_recognised(office: Office) -> None:
    job = office.read(office.drop("scan.pdf"))
    work = office.root / "work.md"
    work.write_text("text\n")
    output = deliver(job, office.inbox, lambda _: work, office.ledger)
    inode = output.stat().st_ino
    office.ledger.recover()
    again = office.ledger.claim()
    assert again is not None
    assert find_delivered(again, office.inbox, office.ledger, sha256(b"scan")) == output
    assert office.deliver(again) == output
    assert output.stat().st_ino == inode, "the same text is not written again"
    assert names_in(office.inbox.path) == {"scan.pdf", "scan.mmd"}


def test_a_changed_source_killed_before_the_rename_does_not_count_as_delivered(
    office: Office,
) -> None:
    source = office.drop("scan.pdf", b"old")
    first = office.process(source, "old\n")
    source.write_bytes(b"new, longer")
    job = office.read(source)
    office.ledger.intend_output(job.id, os.fsencode(first), sha256=sha256(b"new text"))
    fingerprint = sha256(b"new, longer")
    assert find_delivered(job, office.inbox, office.ledger, fingerprint) is None
    assert office.deliver(job, "new\n") == first
    assert body(first) == "new\n"


@pytest.mark.parametrize("edited", [False, True])
def test_without_the_ledger_an_output_is_known_by_its_first_line(
    office: Office, tmp_path: Path, edited: bool
) -> None:
    source = office.drop("scan.pdf", b"old")
    output = office.process(source, "old\n")
    if edited:
        output.write_text(output.read_text() + "my correction\n")
    before = output.read_bytes()
    with closing(Ledger.open(tmp_path / "new-state" / "ledger.sqlite3")) as fresh:
        office.ledger = fresh
        fresh.enqueue([arrival(source)])
        job = fresh.claim()
        assert job is not None
        assert find_delivered(job, office.inbox, fresh, sha256(b"old")) == output
        fresh.finish(job.id, JobState.DONE, output=os.fsencode(output))
        assert output.read_bytes() == before

        source.write_bytes(b"new, longer")
        replaced = office.process(source, "new\n")
        assert (replaced == output) is not edited
        assert (output.read_bytes() == before) is edited


def test_without_the_ledger_a_changed_source_overwrites_nothing(
    office: Office, tmp_path: Path
) -> None:
    source = office.drop("scan.pdf", b"old")
    output = office.process(source, "old\n")
    source.write_bytes(b"new, longer")
    with closing(Ledger.open(tmp_path / "new-state" / "ledger.sqlite3")) as fresh:
        office.ledger = fresh
        assert office.process(source, "new\n") != output
    assert body(output) == "old\n"


def test_report_6_a_touched_source_is_not_read_again(office: Office) -> None:
    source = office.drop("scan.pdf")
    output = office.process(source)
    os.utime(source, (1, 1))
    assert office.ledger.enqueue([arrival(source)]) == 1
    job = office.ledger.claim()
    assert job is not None
    assert find_delivered(job, office.inbox, office.ledger, sha256(b"scan")) == output


def test_a_source_moved_away_and_back_keeps_its_text(office: Office) -> None:
    source = office.drop("scan.pdf")
    output = office.process(source)
    office.ledger.mark_gone(os.fsencode(source))
    office.ledger.enqueue([arrival(source)])
    job = office.ledger.claim()
    assert job is not None
    assert find_delivered(job, office.inbox, office.ledger, sha256(b"scan")) == output
    office.ledger.finish(job.id, JobState.DONE, output=os.fsencode(output))
    source.write_bytes(b"changed afterwards")
    assert office.process(source, "new\n") == output


def test_a_deleted_text_is_written_again_when_asked_for(office: Office) -> None:
    source = office.drop("scan.pdf")
    output = office.process(source)
    job = office.ledger.recent(1)[0]
    office.ledger.retry([job.id])
    forced = office.ledger.claim()
    assert forced is not None
    assert find_delivered(forced, office.inbox, office.ledger, sha256(b"scan")) is None
    output.unlink()
    office.ledger.set_fingerprint(forced.id, sha256(b"scan"), "other options", 1)
    assert office.deliver(forced) == output
    assert output.is_file()


# What stands beside it


def figures(root: Path, **files: bytes) -> Path:
    folder = root / "figures"
    if folder.exists():
        for file in folder.iterdir():
            file.unlink()
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.png").write_bytes(content)
    return folder


def test_figures_and_sidecars_come_with_the_text_and_go_with_its_next_version(
    office: Office,
) -> None:
    layout = office.root / "layout.pdf"
    layout.write_bytes(b"%PDF")
    source = office.drop("scan.pdf", b"old")
    office.process(
        source, "old\n", Beside(figures(office.root, a=b"1", b=b"2"), {".layout.pdf": layout})
    )
    inbox = office.inbox.path
    assert names_in(inbox) == {"scan.pdf", "scan.mmd", "scan.assets", "scan.layout.pdf"}
    (inbox / "scan.assets" / "users.txt").write_text("mine")

    source.write_bytes(b"new, longer")
    office.process(source, "new\n", Beside(figures(office.root, b=b"3", c=b"4")))
    assert names_in(inbox) == {"scan.pdf", "scan.mmd", "scan.assets"}
    assert names_in(inbox / "scan.assets") == {"b.png", "c.png", "users.txt"}
    assert (inbox / "scan.assets" / "b.png").read_bytes() == b"3"

    source.write_bytes(b"newest, and longer still")
    office.process(source, "newest\n")
    assert names_in(inbox / "scan.assets") == {"users.txt"}
    (inbox / "scan.assets" / "users.txt").unlink()


def test_an_empty_assets_folder_goes_too(office: Office) -> None:
    source = office.drop("scan.pdf", b"old")
    office.process(source, "old\n", Beside(figures(office.root, a=b"1")))
    source.write_bytes(b"new, longer")
    office.process(source, "new\n", Beside(office.root / "no such folder"))
    assert names_in(office.inbox.path) == {"scan.pdf", "scan.mmd"}


def test_somebody_elses_folder_or_sidecar_is_not_written_to(office: Office) -> None:
    (office.inbox.path / "scan.assets").mkdir()
    output = office.process(office.drop("scan.pdf"), beside=Beside(figures(office.root, a=b"1")))
    assert output.name == f"scan~{sha256(b'scan')[:8]}.mmd"
    assert names_in(office.inbox.path / "scan.assets") == set()

    sidecar = office.root / "x.json"
    sidecar.write_text("{}")
    (office.inbox.path / "other.json").write_text("mine")
    output = office.process(office.drop("other.pdf", b"2"), beside=Beside(None, {".json": sidecar}))
    assert output.name == f"other~{sha256(b'2')[:8]}.mmd"
    assert (office.inbox.path / "other.json").read_text() == "mine"


def test_figures_of_a_lost_race_are_taken_back(office: Office) -> None:
    folder = figures(office.root, a=b"1")
    job = office.read(office.drop("scan.pdf"))
    work = office.root / "work.md"
    work.write_text("text\n")
    calls: list[str] = []

    def render(assets_name: str) -> Path:
        calls.append(assets_name)
        if len(calls) == 1:
            (office.inbox.path / "scan.mmd").write_text("somebody else")
        return work

    output = deliver(job, office.inbox, render, office.ledger, beside=Beside(folder))
    assert names_in(office.inbox.path) == {
        "scan.pdf", "scan.mmd", output.name, f"{output.stem}.assets",
    }  # fmt: skip


# Rights and detours


def test_mode_and_group_are_as_set_and_umask_counts_otherwise(
    tmp_path: Path, ledger: Ledger
) -> None:
    import grp

    group = grp.getgrgid(os.getgid()).gr_name
    outbox = tmp_path / "out"
    outbox.mkdir()
    office = Office(tmp_path, ledger, outbox=outbox, file_mode=0o664, group=group)
    output = office.process(office.drop("deep/scan.pdf"))
    assert stat.S_IMODE(output.stat().st_mode) == 0o664
    assert stat.S_IMODE(output.parent.stat().st_mode) == 0o775
    assert output.stat().st_gid == os.getgid()
    plain = Office(tmp_path / "plain", ledger)
    assert stat.S_IMODE(plain.process(plain.drop("scan.pdf")).stat().st_mode) == 0o640


def test_an_unknown_group_is_named(tmp_path: Path, ledger: Ledger) -> None:
    office = Office(tmp_path, ledger, group="no-such-group")
    job = office.read(office.drop("scan.pdf"))
    with pytest.raises(DeliveryError, match="no-such-group"):
        office.deliver(job)


def test_folders_made_in_a_shared_outbox_keep_its_group(tmp_path: Path, ledger: Ledger) -> None:
    outbox = tmp_path / "out"
    outbox.mkdir()
    outbox.chmod(0o2770)
    office = Office(tmp_path, ledger, outbox=outbox)
    output = office.process(office.drop("deep/scan.pdf"))
    assert output.parent.stat().st_mode & stat.S_ISGID


def test_a_link_planted_in_the_outbox_leads_nowhere(tmp_path: Path, ledger: Ledger) -> None:
    outbox, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    outbox.mkdir()
    elsewhere.mkdir()
    (outbox / "2026").symlink_to(elsewhere)
    office = Office(tmp_path, ledger, outbox=outbox)
    job = office.read(office.drop("2026/scan.pdf"))
    with pytest.raises(DeliveryError, match="symbolic link"):
        office.deliver(job)
    assert names_in(elsewhere) == set()


def test_a_planted_temporary_file_is_not_written_through(office: Office, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    planted = office.inbox.path / os.fsdecode(output_files._temporary_name(b"scan.mmd"))
    planted.symlink_to(secret)
    office.process(office.drop("scan.pdf"))
    assert secret.read_text() == "secret"
    assert names_in(office.inbox.path) == {"scan.pdf", "scan.mmd"}


# Trouble


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (errno.ENOSPC, NoSpace, "full"),
        (errno.EDQUOT, NoSpace, "full"),
        (errno.EROFS, DeliveryError, "outbox in the settings"),
        (errno.EACCES, DeliveryError, "right"),
        (errno.EIO, SourceBusy, "just now"),
        (errno.ESTALE, SourceBusy, "just now"),
        (errno.EBUSY, SourceBusy, "just now"),
    ],
)
@pytest.mark.parametrize("call", ["open", "write", "fsync"])
def test_trouble_is_told_apart_and_passes_without_a_trace(
    office: Office,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    error: type[Exception],
    words: str,
    call: str,
) -> None:
    job = office.read(office.drop("scan.pdf"))
    real: Callable[..., object] = getattr(os, call)

    def failing(*args: object, **options: object) -> object:
        if call != "open" or (isinstance(args[0], bytes) and b".scanmd-" in args[0]):
            raise OSError(code, os.strerror(code))
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(output_files.os, call, failing)
        with pytest.raises(error, match=words):
            office.deliver(job)
    assert names_in(office.inbox.path) == {"scan.pdf"}
    assert body(office.deliver(job)) == "text\n"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS])
@pytest.mark.parametrize("links", [True, False])
def test_shares_without_a_safe_rename_are_delivered_to_all_the_same(
    office: Office, monkeypatch: pytest.MonkeyPatch, code: int, links: bool
) -> None:
    def unsupported(*_args: object, **_options: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(output_files, "_rename_noreplace", unsupported)
    if not links:
        monkeypatch.setattr(output_files, "_link_and_unlink", unsupported)
    (office.inbox.path / "b.mmd").write_text("mine")
    assert office.process(office.drop("a.pdf", b"1")).name == "a.mmd"
    assert office.process(office.drop("b.pdf", b"2")).name.startswith("b~")
    assert (office.inbox.path / "b.mmd").read_text() == "mine"


def test_a_missing_outbox_says_to_mount_it(tmp_path: Path, ledger: Ledger) -> None:
    office = Office(tmp_path, ledger, outbox=tmp_path / "share")
    job = office.read(office.drop("scan.pdf"))
    with pytest.raises(DeliveryError, match="mount it"):
        office.deliver(job)


def test_a_folder_taken_away_with_its_source_is_not_made_again(office: Office) -> None:
    source = office.drop("case/scan.pdf")
    job = office.read(source)
    source.unlink()
    source.parent.rmdir()
    with pytest.raises(DeliveryError, match="gone"):
        office.deliver(job)
    assert names_in(office.inbox.path) == set()


# Error notes


def test_a_failure_leaves_a_note_that_goes_away_with_it(office: Office) -> None:
    job = office.read(office.drop("scan.pdf"))
    note = write_error_note(job, office.inbox, "The PDF needs a password. Add it to the settings.")
    assert note == office.inbox.path / "scan.error.txt"
    text = note.read_text()
    assert "The PDF needs a password." in text
    assert f"scanmd retry {job.id}" in text
    assert write_error_note(job, office.inbox, "Cut off.") == note, "one note, the latest"
    assert "Cut off." in note.read_text()
    assert remove_error_note(job, office.inbox)
    assert not remove_error_note(job, office.inbox)
    assert names_in(office.inbox.path) == {"scan.pdf"}


def test_notes_of_two_sources_with_one_stem_do_not_replace_each_other(office: Office) -> None:
    (office.inbox.path / "b.error.txt").write_text("mine")
    jobs = [office.read(office.drop(name, name.encode())) for name in ("a.pdf", "a.tif", "b.pdf")]
    notes = [write_error_note(job, office.inbox, "Broken.") for job in jobs]
    assert len(set(notes)) == 3
    assert remove_error_note(jobs[1], office.inbox)
    assert [note is not None and note.exists() for note in notes] == [True, False, True]
    assert remove_error_note(jobs[2], office.inbox)
    assert (office.inbox.path / "b.error.txt").read_text() == "mine"


def test_notes_can_be_turned_off_and_go_to_the_outbox(tmp_path: Path, ledger: Ledger) -> None:
    office = Office(tmp_path, ledger, error_notes=False)
    job = office.read(office.drop("deep/scan.pdf"))
    assert write_error_note(job, office.inbox, "Broken.") is None
    outbox = tmp_path / "out"
    outbox.mkdir()
    inbox = Inbox.model_validate({"path": office.inbox.path, "outbox": outbox})
    assert not remove_error_note(job, inbox)
    assert names_in(outbox) == set(), "looking for a note makes no folders"
    assert write_error_note(job, inbox, "Broken.") == outbox / "deep" / "scan.error.txt"
