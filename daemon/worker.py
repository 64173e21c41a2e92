"""One document at a time: copied, read page by page, rendered, delivered, disposed of."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from daemon.delivery import (
    Beside,
    deliver,
    dispose_source,
    find_delivered,
    remove_error_note,
    write_error_note,
)
from daemon.errors import (
    IntakeRefused,
    LedgerDamaged,
    NoSpace,
    ReaderError,
    ReaderStopped,
    ScanmdError,
    SourceBusy,
)
from daemon.faults import reached
from daemon.intake import copy_in, examine
from daemon.job import Arrival, Job, JobState
from daemon.ledger import Ledger
from daemon.output_files import shown
from daemon.purge import WorkDir
from daemon.reader_pool import Reader
from daemon.settings import Inbox, Settings
from ocr import (
    EngineError,
    EngineUnavailable,
    Limits,
    MarkdownOptions,
    OcrError,
    Page,
    PageStatus,
    Profile,
    ReadOptions,
    SourceError,
    TextLayer,
    page_to_dict,
)

_CRASHES_MAX = 2
"""A page that brought its reader down this often is not tried again."""
_GAPS = frozenset({PageStatus.DAMAGED, PageStatus.FAILED, PageStatus.TRUNCATED})

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Current:
    """The page that is being read just now."""

    job_id: int
    path: bytes
    page_number: int
    page_count: int


class Paused(Exception):
    """Nothing can be read at present; the message says why."""


class Worker:
    """Reads claimed jobs with one reader. Its calls come from one thread."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        reader: Reader,
        *,
        engine: str,
        on_changed: Callable[[str, bytes], None],
    ) -> None:
        """Nothing is started.

        Args:
            settings: The settings.
            ledger: Gives the jobs and keeps the pages.
            reader: Reads the pages.
            engine: The chosen engine's name: pages of another engine are not reused.
            on_changed: Is given inbox and path of a source that changed while it waited.
        """
        self.current: Current | None = None
        self.stopping = threading.Event()
        self._settings = settings
        self._ledger = ledger
        self._reader = reader
        self._engine = engine
        self._on_changed = on_changed
        self._inboxes = {str(inbox.path): inbox for inbox in settings.inboxes}
        self._work = WorkDir(settings.state_dir / "work")

    def run(self, job: Job) -> None:
        """Bring a claimed job to an end, or back into the queue.

        Raises:
            Paused: The job waits, and so must all others, for a while.
        """
        inbox = self._inboxes.get(job.inbox)
        if inbox is None:
            self._ledger.finish(job.id, JobState.GONE, reason="Its inbox is not watched any more.")
            return
        try:
            with self._work.job(job.id) as folder:
                self._read(job, inbox, folder)
        except FileNotFoundError:
            self._ledger.finish(
                job.id, JobState.GONE, reason="The file was taken away before it was read."
            )
            log.info("gone", job=job.id, file=job.path)
        except ReaderStopped:
            self._ledger.page_stopped(job.id)
            self._ledger.retry_later(job.id, 0, None, count_attempt=False)
        except (SourceError, IntakeRefused) as error:
            self._fail(job, inbox, str(error))
        except (NoSpace, EngineUnavailable) as error:
            self._wait(job, str(error))
            raise Paused(str(error)) from error
        except ReaderError as error:
            if error.during in {"start", "load"}:
                self._wait(job, str(error))
                raise Paused(str(error)) from error
            self._again(job, inbox, str(error))
        except SourceBusy as error:
            self._busy(job, inbox, str(error))
        except LedgerDamaged:
            raise
        except (ScanmdError, OcrError) as error:
            self._again(job, inbox, str(error))
        finally:
            self.current = None
            with suppress(ReaderError):
                self._reader.close_source()

    def dispose(self, job: Job) -> None:
        """Archive or delete a delivered source, if its inbox says so."""
        inbox = self._inboxes.get(job.inbox)
        if inbox is None:
            self._ledger.disposed(job.id)
            return
        try:
            disposal = dispose_source(job, inbox, self._ledger)
        except ScanmdError as error:
            log.warning("source kept for now", job=job.id, file=job.path, reason=str(error))
            return
        self._ledger.disposed(job.id)
        if disposal.reason is not None or disposal.archived is not None:
            log.info("source", job=job.id, file=job.path, what=str(disposal.done),
                     archived=disposal.archived, reason=disposal.reason)  # fmt: skip

    # The way of a document

    def _read(self, job: Job, inbox: Inbox, folder: Path) -> None:
        source = folder / "source"
        started_s = time.monotonic()
        arrival = Arrival(job.inbox, job.path, job.signature)
        fingerprint = copy_in(arrival, inbox, source, max_file_gb=self._settings.max_file_gb)
        reached("after-copy")
        known = find_delivered(job, inbox, self._ledger, fingerprint)
        options = self._options(inbox, folder / "assets")
        key = self._read_key(options)
        if not self._ledger.set_fingerprint(job.id, fingerprint, key):
            return  # its twin is being read; this one gets the same pages afterwards
        if known is not None:
            self._end(job, inbox, JobState.DONE, known, None)
            log.info("known", job=job.id, file=job.path, output=known)
            return
        if self._ledger.complete_page_count(fingerprint, key) is None:
            self._read_pages(job, source, options, fingerprint=fingerprint, key=key)
        self._deliver(job, inbox, folder, options=options, fingerprint=fingerprint, key=key)
        log.info("delivered", job=job.id, file=job.path,
                 seconds=round(time.monotonic() - started_s, 2))  # fmt: skip

    def _read_pages(
        self, job: Job, source: Path, options: ReadOptions, *, fingerprint: str, key: str
    ) -> None:
        if options.assets_dir is not None:
            options.assets_dir.mkdir(exist_ok=True)
        journaled = self._ledger.journaled_pages(fingerprint, key)
        opened = self._reader.open(source, options)
        self._ledger.set_fingerprint(job.id, fingerprint, key, opened.page_count)
        for index in range(opened.page_count):
            if index in journaled:
                continue
            if self.stopping.is_set():
                raise ReaderStopped("The service is being stopped.", during="page")
            self.current = Current(job.id, job.path, index + 1, opened.page_count)
            started_s = time.monotonic()
            page = self._read_page(job, index)
            seconds = time.monotonic() - started_s
            assets = _assets_of(page, options.assets_dir)
            text = json.dumps(page_to_dict(page), ensure_ascii=True, separators=(",", ":"))
            good = page.status not in _GAPS
            self._ledger.page_done(job.id, index, text, seconds, good=good, assets=assets)
            reached("after-page-commit")
            log.info("page", job=job.id, file=job.path, page=index + 1, pages=opened.page_count,
                     status=str(page.status), seconds=round(seconds, 2))  # fmt: skip

    def _read_page(self, job: Job, index: int) -> Page:
        crashes = self._ledger.page_started(job.id, index)
        while crashes < _CRASHES_MAX:
            try:
                return self._reader.read_page(index)
            except ReaderStopped:
                raise
            except ReaderError as error:
                if error.during != "page" or error.page_index is None:
                    raise
                log.warning("reader lost", job=job.id, file=job.path, page=index + 1,
                            reason=str(error))  # fmt: skip
                crashes = self._ledger.page_crashed(job.id, error.page_index)
                if error.page_index == index and crashes < _CRASHES_MAX:
                    self._ledger.page_started(job.id, index)
            except EngineError as error:
                return _gap(index, str(error))
        return _gap(index, "The page brought the reading process down twice.")

    def _deliver(
        self,
        job: Job,
        inbox: Inbox,
        folder: Path,
        *,
        options: ReadOptions,
        fingerprint: str,
        key: str,
    ) -> None:
        pages = folder / "pages.jsonl"
        gaps, readable, reason = 0, 0, None
        with pages.open("w", encoding="utf-8") as lines:
            for text in self._ledger.page_json(fingerprint, key):
                lines.write(text + "\n")
                page = json.loads(text)
                status = page.get("status", "ok")
                if status in _GAPS:
                    gaps += 1
                    reason = reason or page.get("reason")
                readable += status not in _GAPS or bool(page["blocks"])
        if gaps and not readable:
            self._fail(job, inbox, reason or "None of its pages could be read.")
            return
        assets = folder / "delivered-assets"
        assets.mkdir()
        figures = self._ledger.restore_assets(fingerprint, key, assets)

        def render(assets_name: str) -> Path:
            target = folder / "document.mmd"
            options = MarkdownOptions(
                page_separator=inbox.page_separator,
                mark_uncertain=inbox.mark_uncertain,
                assets_name=assets_name if figures else None,
            )
            self._reader.render(pages, target, options)
            return target

        sidecars = {}
        if options.visualization:
            drawing = folder / "layout.pdf"
            self._reader.draw(pages, folder / "source", drawing, options)
            sidecars[".layout.pdf"] = drawing
        reached("before-fsync")
        beside = Beside(assets, sidecars)
        output = deliver(
            job, inbox, render, self._ledger, umask=self._settings.umask, beside=beside
        )
        reached("after-rename")
        state = JobState.PARTIAL if gaps else JobState.DONE
        if gaps:
            reason = f"{gaps} page{'s' if gaps > 1 else ''} could not be read whole: {reason}"
        self._end(job, inbox, state, output, reason)

    def _end(
        self, job: Job, inbox: Inbox, state: JobState, output: Path, reason: str | None
    ) -> None:
        self._ledger.finish(
            job.id,
            state,
            output=os.fsencode(output),
            reason=reason,
            engine=self._engine,
            dispose=inbox.after != "keep",
        )
        with suppress(ScanmdError):  # an old note is untidy, no failed delivery
            remove_error_note(job, inbox)
        if inbox.after != "keep" and (ended := self._ledger.job(job.id)) is not None:
            self.dispose(ended)

    # What can go wrong

    def _fail(self, job: Job, inbox: Inbox, reason: str) -> None:
        note: Path | None = None
        try:
            note = write_error_note(job, inbox, reason, umask=self._settings.umask)
        except ScanmdError as error:
            log.warning("no error note", job=job.id, file=job.path, reason=str(error))
        output = None if note is None else os.fsencode(note)
        self._ledger.finish(job.id, JobState.FAILED, output=output, reason=reason)
        log.warning("failed", job=job.id, file=job.path, reason=reason)

    def _again(self, job: Job, inbox: Inbox, reason: str) -> None:
        delay_s = self._settings.retry_delay_s * 2**job.attempts
        if self._ledger.retry_later(job.id, delay_s, reason):
            log.warning("again later", job=job.id, file=job.path, reason=reason, delay_s=delay_s)
        else:
            self._fail(job, inbox, reason)

    def _wait(self, job: Job, reason: str) -> None:
        with suppress(NoSpace):  # then the claim is undone by the next start's recovery
            self._ledger.page_stopped(job.id)
            self._ledger.retry_later(job.id, 0, reason, count_attempt=False)

    def _busy(self, job: Job, inbox: Inbox, reason: str) -> None:
        with suppress(FileNotFoundError, ScanmdError):
            if examine(job.path, inbox).signature != job.signature:
                self._ledger.finish(job.id, JobState.GONE, reason="The file changed meanwhile.")
                self._on_changed(job.inbox, job.path)
                return
        self._again(job, inbox, reason)

    # Options

    def _options(self, inbox: Inbox, assets: Path) -> ReadOptions:
        settings = self._settings
        return ReadOptions(
            dpi=inbox.dpi,
            text_layer=TextLayer(inbox.text_layer),
            passwords=settings.pdf_passwords,
            limits=Limits(
                max_page_mpx=settings.max_page_mpx,
                max_pages=settings.max_pages,
                max_file_gb=settings.max_file_gb,
                render_timeout_s=settings.render_timeout_s,
                render_memory_gb=settings.render_memory_gb,
            ),
            pre_correction=inbox.pre_correction,
            profile=Profile(inbox.profile),
            assets_dir=assets,
            visualization=settings.enable_visualization,
        )

    def _read_key(self, options: ReadOptions) -> str:
        """What decides how pages look; passwords and folders do not."""
        plain = replace(options, passwords=(), assets_dir=None, visualization=False)
        return hashlib.sha256(f"{self._engine} {plain}".encode()).hexdigest()[:16]


def _gap(index: int, reason: str) -> Page:
    return Page(index, (0, 0), None, (), status=PageStatus.FAILED, reason=reason)


def _assets_of(page: Page, folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    names = [block.asset for block in page.blocks if block.asset]
    return [folder / name for name in names if (folder / name).is_file()]


def describe_current(current: Current | None) -> str:
    """`page 12/240 of scan.pdf`, or that nothing is read."""
    if current is None:
        return "waiting for files"
    name = shown(current.path.rsplit(b"/", 1)[-1])
    return f"page {current.page_number}/{current.page_count} of {name}"
