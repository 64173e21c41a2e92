"""The daemon: watches, queues, lets the worker read, reports, and ends in good order."""

from __future__ import annotations

import fcntl
import json
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

import structlog

from daemon.errors import (
    AlreadyRunning,
    IntakeRefused,
    NoSpace,
    ReaderError,
    ScanmdError,
    SourceBusy,
    StateUnusable,
)
from daemon.intake import being_written, examine, opened, signature_of, walk, wanted
from daemon.job import Arrival, JobState
from daemon.ledger import Ledger
from daemon.logs import set_up
from daemon.model_commands import model_folder
from daemon.purge import WorkDir
from daemon.reader_pool import Reader, ReaderLimits, ReaderState
from daemon.settings import Inbox, Settings
from daemon.settling import SettleTracker, Sign
from daemon.systemd import Notifier
from daemon.watching import InboxWatcher
from daemon.worker import Paused, Worker, describe_current
from ocr import (
    EngineChoice,
    EngineUnavailable,
    SourceKind,
    TailState,
    choose_engine,
    sniff,
    tail_state,
)

_TICK_S = 0.5
_NOTE_INTERVAL_S = 1.0
_SAME_NOTE_S = 15.0
_ROOT_INTERVAL_S = 5.0
_DAY_S = 86400.0
_REPORTED_MAX = 10_000
STATUS_NOTE = "service"

log = structlog.get_logger()


def make_reader(settings: Settings, choice: EngineChoice) -> Reader:
    """A reader for the chosen engine, under the limits of the settings."""
    deepseek = {"model_dir": model_folder(settings.cache_dir)}
    limits = ReaderLimits(
        page_s=settings.page_time_limit_s,
        load_s=settings.engine_load_limit_s,
        memory_gb=settings.reader_memory_gb,
        idle_unload_s=settings.engine_idle_unload_s,
        niceness=5,
        work_dir=settings.state_dir / "work",
    )
    return Reader(
        choice.name,
        deepseek if choice.name == "deepseek" else None,
        limits=limits,
        on_output=lambda line: log.debug("reader", line=line),
    )


def chosen_engine(settings: Settings) -> EngineChoice:
    """The engine that these settings mean on this machine, and why."""
    return choose_engine(settings.engine, model_dir=model_folder(settings.cache_dir))


@contextmanager
def sole_user(state_dir: Path) -> Iterator[None]:
    """Hold the state directory, so that a second daemon refuses to start.

    Raises:
        AlreadyRunning: Another daemon holds it.
        StateUnusable: It cannot be made or written to.
    """
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(state_dir / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateUnusable(
            f"state_dir = {state_dir} cannot be used: {error.strerror}. "
            "Check that it belongs to the user that scanmd runs as."
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise AlreadyRunning(f"Another scanmd already works with {state_dir}.") from error
    try:
        yield
    finally:
        os.close(fd)


class _Timer:
    """Runs an action every so often, first after one interval."""

    def __init__(self, interval_s: float, action: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._action = action
        self._last_s = time.monotonic()

    def run_if_due(self, now_s: float) -> None:
        if now_s - self._last_s >= self._interval_s:
            self._last_s = now_s
            self._action()


class Service:
    """Everything that runs between start and SIGTERM."""

    def __init__(self, settings: Settings, *, once: bool = False) -> None:
        """Nothing is opened before `run`.

        Args:
            settings: The settings.
            once: End when every inbox was searched and nothing is left to read.
        """
        self._settings = settings
        self._once = once
        self._notifier = Notifier()
        self._inboxes = {str(inbox.path): inbox for inbox in settings.inboxes}
        self._hints: deque[tuple[str, bytes]] = deque()
        self._arrivals: deque[Arrival] = deque()
        self._rescans: queue.Queue[str | None] = queue.Queue()
        self._wanted_rescans: set[str] = set()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._work_there = threading.Event()
        self._busy = threading.Event()
        self._engine_checked = threading.Event()
        self._paused: str | None = None
        self._reported: set[int] = set()
        self._known: dict[int, int] = {}
        self._scanned: set[str] = set()
        self._fatal: ScanmdError | None = None
        self._noted: dict[str, object] = {}
        self._noted_s = 0.0
        self._choice = chosen_engine(settings)
        self._tracker = SettleTracker(
            settings.settle_short_s, settings.settle_long_s, self._probe_arrival
        )
        self._watchers = {
            key: InboxWatcher(
                inbox,
                on_hint=partial(self._hint, key),
                on_rescan=partial(self._rescan, key),
            )
            for key, inbox in self._inboxes.items()
        }

    def run(self) -> None:
        """Work until SIGTERM (or, with `once`, until there is nothing left).

        Raises:
            ScanmdError: The service cannot work; says why.
        """
        settings = self._settings
        set_up(settings.log_format, settings.log_level, on_overflow=self._rescan_all)
        os.umask(settings.umask)
        with sole_user(settings.state_dir), ExitStack() as stack:
            self._ledger = Ledger.open(
                settings.state_dir / "ledger.sqlite3", max_attempts=settings.max_attempts
            )
            stack.callback(self._ledger.close)
            for job in self._ledger.recover():
                log.info("resumed", job=job.id, file=job.path, pages_read=job.pages_read)
            self._purge(max_age_s=0)
            self._reader = make_reader(settings, self._choice)
            stack.callback(self._reader.kill)
            self._worker = Worker(
                settings, self._ledger, self._reader,
                engine=self._choice.name, on_changed=self._hint,
            )  # fmt: skip
            log.info("engine", name=self._choice.name, why=self._choice.why)
            signal.signal(signal.SIGTERM, self._on_signal)
            signal.signal(signal.SIGINT, self._on_signal)
            # A lease that somebody breaks raises SIGIO, whose default is death.
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            threads = [
                threading.Thread(target=self._scan_forever, name="scanner", daemon=True),
                threading.Thread(target=self._work_forever, name="worker", daemon=True),
            ]
            for watcher in self._watchers.values():
                watcher.check_root()
                self._report_watcher(watcher)
            for thread in threads:
                thread.start()
            self._await_engine()
            self._notifier.ready(self._status_text())
            log.info("ready", inboxes=len(self._inboxes))
            self._loop()
            self._shut_down(threads)
        if self._fatal is not None:
            raise self._fatal

    def _await_engine(self) -> None:
        """Wait until the engine is loaded or known not to work; a large one takes minutes."""
        while not self._engine_checked.wait(_TICK_S) and not self._stop.is_set():
            if self._reader.state is not ReaderState.STOPPED:
                self._notifier.status(f"loading the engine {self._choice.name}")
                self._notifier.extend_timeout(30)

    # Hints and scans, from other threads

    def _hint(self, key: str, path: bytes) -> None:
        self._hints.append((key, path))
        self._wake.set()

    def _rescan(self, key: str, reason: str) -> None:
        log.debug("rescan", inbox=key, reason=reason)
        if key not in self._wanted_rescans:
            self._wanted_rescans.add(key)
            self._rescans.put(key)

    def _rescan_all(self) -> None:
        log.warning("events were lost; every inbox is searched again")
        for key in self._inboxes:
            self._rescan(key, "overflow")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()
        self._wake.set()

    # The scanner thread

    def _scan_forever(self) -> None:
        while (key := self._rescans.get()) is not None:
            self._wanted_rescans.discard(key)
            if self._watchers[key].paused is None:
                try:
                    self._scan(self._inboxes[key])
                    self._scanned.add(key)
                except OSError as error:
                    log.warning("inbox cannot be searched", inbox=key, reason=error.strerror)
                except NoSpace as error:
                    self._pause(str(error))
                except ScanmdError as error:
                    self._end_with(error)
            self._wake.set()

    def _scan(self, inbox: Inbox) -> None:
        key = str(inbox.path)
        seen = set()
        for path in walk(inbox):
            if self._stop.is_set():
                return
            seen.add(hash(path))
            with suppress(FileNotFoundError, SourceBusy):
                information = os.lstat(path)
                # Hashes only: 50,000 paths with their times would fill the memory.
                numbers = hash((information.st_ino, information.st_size, information.st_ctime_ns))
                if self._known.get(hash(path)) == numbers:
                    continue
                try:
                    arrival = examine(path, inbox)
                except IntakeRefused as error:
                    self._report_refused(path, str(error))
                    continue
                if self._ledger.known(path, arrival.signature):
                    self._known[hash(path)] = numbers
                else:
                    self._arrivals.append(arrival)
        if key in self._scanned and self._watchers[key].is_same_root():
            root = os.fsencode(inbox.path) + b"/"
            for path, _ in self._ledger.known_signatures():
                if path.startswith(root) and hash(path) not in seen and not os.path.lexists(path):
                    self._gone(path)

    def _gone(self, path: bytes) -> None:
        self._known.pop(hash(path), None)
        self._ledger.mark_gone(path)

    def _report_refused(self, path: bytes, reason: str) -> None:
        token = hash((path, reason))
        if token not in self._reported:
            if len(self._reported) >= _REPORTED_MAX:
                self._reported.clear()
            self._reported.add(token)
            log.warning("refused", file=path, reason=reason)

    # The main thread

    def _loop(self) -> None:
        timers = [
            _Timer(_ROOT_INTERVAL_S, self._check_roots),
            _Timer(self._settings.poll_interval_s, self._poll),
            _Timer(self._settings.rescan_interval_s, self._rescan_every),
            _Timer(_DAY_S, self._tidy),
            _Timer(_NOTE_INTERVAL_S, self._report),
        ]
        while not self._stop.is_set():
            due_s = self._tracker.next_due_s()
            wait_s = _TICK_S if due_s is None else due_s - time.monotonic()
            self._wake.wait(min(_TICK_S, max(0.0, wait_s)))
            self._wake.clear()
            now_s = time.monotonic()
            self._take_hints(now_s)
            if ready := self._tracker.due(now_s):
                self._enqueue(ready, now_s)
            for timer in timers:
                timer.run_if_due(now_s)
            if self._once and self._is_idle():
                return

    def _poll(self) -> None:
        for key, watcher in self._watchers.items():
            if watcher.mode == "polling" and watcher.paused is None:
                self._rescan(key, "poll")

    def _rescan_every(self) -> None:
        for key in self._watchers:
            self._rescan(key, "interval")

    def _tidy(self) -> None:
        self._purge(max_age_s=self._settings.work_max_age_days * _DAY_S)
        self._ledger.compact(self._settings.ledger_keep_days * _DAY_S)

    def _enqueue(self, ready: list[Arrival], now_s: float) -> None:
        try:
            queued = self._ledger.enqueue(ready)
        except NoSpace as error:
            self._pause(str(error))
            for arrival in ready:  # they settle again, and by then there may be room
                self._tracker.observe(arrival, now_s)
            return
        if queued:
            log.info("queued", files=queued)
            self._work_there.set()

    def _take_hints(self, now_s: float) -> None:
        while self._arrivals:
            self._observe(self._arrivals.popleft(), now_s)
        for _ in range(len(self._hints)):
            key, path = self._hints.popleft()
            inbox = self._inboxes[key]
            try:
                if not wanted(path, inbox):
                    continue
                arrival = examine(path, inbox)
            except FileNotFoundError:
                self._tracker.forget(path)
                if self._watchers[key].is_same_root():
                    self._gone(path)
            except IntakeRefused as error:
                if not os.path.isdir(path):  # noqa: PTH112 - bytes
                    self._report_refused(path, str(error))
            except SourceBusy:
                self._rescan(key, "busy")
            else:
                if not self._ledger.known(path, arrival.signature):
                    self._observe(arrival, now_s)

    def _observe(self, arrival: Arrival, now_s: float) -> None:
        # What has not changed for long needs no new quiet time after a restart.
        age_s = time.time() - arrival.signature.ctime_ns / 1e9
        self._tracker.observe(arrival, now_s, age_s=min(max(age_s, 0.0), 3600.0))

    def _probe_arrival(self, arrival: Arrival) -> Sign | None:
        """Gone or changed: None (and seen anew); else what writer and tail say."""
        inbox = self._inboxes[arrival.inbox]
        try:
            with opened(arrival.path, inbox) as fd:
                if signature_of(os.fstat(fd)) != arrival.signature:
                    self._hint(arrival.inbox, arrival.path)
                    return None
                writer = being_written(fd)
                tail = tail_state(fd)
                is_tiff = sniff(os.pread(fd, 4096, 0)) is SourceKind.TIFF
        except FileNotFoundError:
            return None
        except IntakeRefused as error:
            self._report_refused(arrival.path, str(error))
            return None
        except (SourceBusy, OSError):
            return Sign.DOUBTFUL
        if writer:
            return Sign.WRITTEN
        whole = tail is TailState.WHOLE or (is_tiff and tail is TailState.UNKNOWN)
        return Sign.COMPLETE if writer is False and whole else Sign.DOUBTFUL

    def _check_roots(self) -> None:
        for watcher in self._watchers.values():
            before = (watcher.mode, watcher.paused)
            watcher.check_root()
            if (watcher.mode, watcher.paused) != before:
                self._report_watcher(watcher)
                self._work_there.set()

    def _report_watcher(self, watcher: InboxWatcher) -> None:
        if watcher.paused is not None:
            log.warning("inbox paused", inbox=str(watcher.inbox.path), reason=watcher.paused)
        else:
            log.info("watching", inbox=str(watcher.inbox.path), mode=watcher.mode,
                     reason=watcher.mode_reason)  # fmt: skip

    def _is_idle(self) -> bool:
        if self._arrivals or self._hints or len(self._tracker) or self._busy.is_set():
            return False
        if any(w.paused is None and k not in self._scanned for k, w in self._watchers.items()):
            return False
        counts = self._ledger.counts()
        return not counts[JobState.QUEUED] and not counts[JobState.READING]

    def _report(self) -> None:
        now_s = time.monotonic()
        text = self._status_text()
        self._notifier.status(text)
        limit_s = self._settings.page_time_limit_s * 2 + self._settings.engine_load_limit_s
        if not self._busy.is_set() or now_s - self._reader.last_progress_s < limit_s:
            self._notifier.watchdog()
        current = self._worker.current
        note: dict[str, object] = {
            "pid": os.getpid(),
            "engine": self._choice.name,
            "why": self._choice.why,
            "reader": str(self._reader.state),
            "paused": self._paused,
            "settling": len(self._tracker),
            "text": text,
            "job": None if current is None else current.job_id,
            "inboxes": [
                {"path": key, "mode": w.mode, "reason": w.mode_reason, "paused": w.paused}
                for key, w in self._watchers.items()
            ],
        }
        # An idle service must not keep a disk awake: what is the same is written seldom.
        if note != self._noted or now_s - self._noted_s >= _SAME_NOTE_S:
            self._noted, self._noted_s = note, now_s
            with suppress(ScanmdError):
                self._ledger.set_note(STATUS_NOTE, json.dumps({**note, "updated_s": time.time()}))

    def _status_text(self) -> str:
        if self._paused is not None:
            return f"paused: {self._paused}"
        counts = self._ledger.counts()
        return (
            f"{describe_current(self._worker.current)} · {counts[JobState.QUEUED]} queued · "
            f"{counts[JobState.FAILED]} failed"
        )

    def _purge(self, *, max_age_s: float) -> None:
        purged = WorkDir(self._settings.state_dir / "work").purge(max_age_s, time.time())
        if purged.entries or purged.failed:
            log.info("purged", entries=purged.entries, bytes=purged.size_bytes,
                     failed=purged.failed)  # fmt: skip

    def _shut_down(self, threads: list[threading.Thread]) -> None:
        log.info("stopping")
        self._notifier.stopping("finishing the page")
        self._stop.set()
        self._worker.stopping.set()
        self._rescans.put(None)
        self._work_there.set()
        for watcher in self._watchers.values():
            watcher.stop()
        self._reader.stop()
        deadline_s = time.monotonic() + self._settings.page_time_limit_s
        worker = threads[1]
        while worker.is_alive() and time.monotonic() < deadline_s:
            self._notifier.extend_timeout(15)
            worker.join(timeout=5)
        self._reader.kill()
        log.info("stopped")

    # The worker thread

    def _work_forever(self) -> None:
        try:
            try:
                self._load_engine()
            except (Paused, NoSpace) as obstacle:
                self._pause(str(obstacle))
            finally:
                self._engine_checked.set()
            for job in self._ledger.to_dispose():
                self._worker.dispose(job)
            while not self._stop.is_set():
                if not self._work_once():
                    self._reader.unload_if_idle()
                    self._work_there.wait(1.0)
                    self._work_there.clear()
        except ScanmdError as error:
            self._end_with(error)

    def _end_with(self, error: ScanmdError) -> None:
        self._fatal = error
        self._stop.set()
        self._wake.set()

    def _load_engine(self) -> None:
        try:
            info = self._reader.load()
        except (EngineUnavailable, ReaderError) as error:
            raise Paused(str(error)) from error
        log.info("engine loaded", name=info.name, version=info.version, device=info.device)

    def _work_once(self) -> bool:
        """Read one document if there is one and nothing forbids it."""
        self._busy.set()
        try:
            worked = self._read_next()
        except (Paused, NoSpace) as obstacle:
            self._busy.clear()  # waiting is no work: the watchdog must not miss progress
            self._pause(str(obstacle))
            self._stop.wait(self._settings.retry_delay_s)
            return False
        finally:
            self._busy.clear()
        self._pause(None)
        return worked

    def _read_next(self) -> bool:
        if (reason := self._no_room()) is not None:
            raise Paused(reason)
        skip = [key for key, watcher in self._watchers.items() if watcher.paused]
        job = self._ledger.claim(skip=skip)
        if job is None:
            if self._paused is not None:
                self._load_engine()  # a pause ends when its reason does, not at the next document
            return False
        log.info("reading", job=job.id, file=job.path)
        self._worker.run(job)
        return True

    def _pause(self, reason: str | None) -> None:
        if reason != self._paused:
            self._paused = reason
            if reason is None:
                log.info("going on")
            else:
                log.warning("paused", reason=reason)

    def _no_room(self) -> str | None:
        room = os.statvfs(self._settings.state_dir)
        free_gb = room.f_bavail * room.f_frsize / 1e9
        if free_gb >= self._settings.min_free_gb:
            return None
        return (
            f"The disk with {self._settings.state_dir} has only {free_gb:.2f} GB left. "
            "Free some space, or lower min_free_gb."
        )
