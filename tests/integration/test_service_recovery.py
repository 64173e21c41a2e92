"""A daemon that is killed or told to stop in the middle of a document."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_service import Office, _text_pdf

POINTS = ["after-copy", "after-page-commit:2", "before-fsync", "before-rename", "after-rename",
          "before-ledger-commit"]  # fmt: skip
PAGES = ("Page the first", "Page the second", "Page the third")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path)
    yield office
    office.kill()


def test_after_any_kill_the_result_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    content = _text_pdf(tmp_path / "doc.pdf", *PAGES)
    results = {}
    for number, point in enumerate([None, *POINTS]):
        root = tmp_path / str(number)
        root.mkdir()
        office = Office(root)
        try:
            (office.inbox / "doc.pdf").write_bytes(content)
            if point is not None:
                office.start(SCANMD_TEST_KILL_AT=point)
                assert office.wait_for_end() == -signal.SIGKILL, point
            assert office.command("run", "--once").returncode == 0, point
            (output,) = office.inbox.glob("*.mmd")
            results[point] = output.read_bytes()
            assert not list((office.state / "work").iterdir()), point
        finally:
            office.kill()
    undisturbed = results.pop(None)
    assert all(page.encode() in undisturbed for page in PAGES)
    assert {point: text == undisturbed for point, text in results.items()} == dict.fromkeys(
        POINTS, True
    )


def test_told_to_stop_in_the_middle_it_goes_on_where_it_was(office: Office) -> None:
    _text_pdf(office.inbox / "doc.pdf", *[f"Page number {n}" for n in range(40)])
    office.start()
    office.wait_for(lambda: office.events("page"))
    assert office.stop() == 0
    read_before = len(office.events("page"))
    assert read_before < 40, "it was to be stopped in the middle"
    told = office.command("run", "--once")
    assert told.returncode == 0, told.stderr[-2000:]
    text = (office.inbox / "doc.mmd").read_text(encoding="utf-8")
    assert all(f"Page number {n}\n" in text for n in range(40))
    assert read_before + told.stderr.count('"event": "page"') == 40
    assert not list((office.state / "work").iterdir())


def test_the_status_of_a_running_daemon_and_its_memory_after_a_read(office: Office) -> None:
    pid = office.start()
    _text_pdf(office.inbox / "scan.pdf", "Some text")
    office.wait_for(lambda: office.ended(1))

    def running() -> bool:
        return bool(json.loads(office.command("status", "--json").stdout)["running"])

    office.wait_for(running)  # the note is written once a second
    report = json.loads(office.command("status", "--json").stdout)
    assert report["counts"]["done"] == 1
    maps = Path(f"/proc/{pid}/maps").read_text()
    for library in ("cv2", "onnxruntime", "openvino", "torch", "numpy"):
        assert f"/{library}" not in maps
