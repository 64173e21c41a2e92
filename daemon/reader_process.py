"""One reader process as the daemon sees it: started, asked, watched, ended.

Knows nothing of pages. Whoever calls `ask` watches over the process in its own thread,
so that no supervisor thread can die unnoticed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from daemon.reader_protocol import Channel, Message, ProtocolError

Clock = Callable[[], float]

_FOLDER_PREFIX = "scanmd-reader-"
_ONE_AT_A_TIME = threading.Lock()
"""No reader's new folder is taken for an old one before it is locked."""
_WATCH_EVERY_S = 0.25
"""How often memory is looked at: a process can fill some hundred MB in that time."""
_KILL_WAIT_S = 10.0
_KEPT_LINES = 20
_LINE_LENGTH = 300
_LINES_PER_COMMAND = 200
_GB = 1e9
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
"""Documents never leave the machine, and neither does news of them."""
_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
"""Waiting threads sleep: a scanner's server has other work to do."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_NOT_FOR_THE_CHILD = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID")


class Fault(StrEnum):
    """Why a reader process is no more."""

    CRASHED = "crashed"
    HUNG = "hung"
    MEMORY = "memory"
    STOPPED = "stopped"


class ProcessLost(Exception):
    """The process ended, or had to be ended, before it answered.

    `taken` tells whether it had begun with the command; `detail` is how it ended.
    """

    def __init__(self, fault: Fault, detail: str, *, taken: bool) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail
        self.taken = taken


class TemporaryFolder:
    """A private folder for one process's temporary files, removed with it.

    Locked while it is in use, so that neither the purge nor systemd-tmpfiles takes it
    from a process that lives for weeks.
    """

    def __init__(self, parent: Path | None) -> None:
        """Make it in `parent`, or in the system's default place.

        Raises:
            OSError: It cannot be made there.
        """
        with _ONE_AT_A_TIME:
            if parent is not None:
                parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                for left_behind in parent.glob(f"{_FOLDER_PREFIX}*"):
                    _remove_unless_locked(left_behind)
            self.path = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=parent))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove the folder and what is left in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


class ReaderProcess:
    """One child. `ask` and `close` belong to one thread; `interrupt` to any."""

    def __init__(
        self,
        *,
        work_dir: Path | None = None,
        niceness: int = 0,
        on_output: Callable[[str], None] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Start the process.

        Args:
            work_dir: Where the folder for its temporary files is made (and the folders
                of readers that died with their daemon are removed); None: the system's
                default.
            niceness: Added to the daemon's own, 0..19.
            on_output: Is given each line that the process prints, cleaned and bounded.
            clock: Seconds, never running backwards.

        Raises:
            OSError: No process could be started.
        """
        self._clock = clock
        self._on_output = on_output
        self._printed: deque[str] = deque(maxlen=_KEPT_LINES)
        self._half_line = b""
        self._output_ended = False
        self._lines_left = _LINES_PER_COMMAND
        self._closed = threading.Lock()
        self._is_closed = False
        self._interrupted = False
        self._folder = TemporaryFolder(work_dir)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    _command(theirs.fileno(), niceness),
                    env=_environment(os.environ, self._folder.path),
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            self._folder.remove()
            raise
        assert self._process.stdout is not None  # noqa: S101 - tells mypy what PIPE means
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._channel = Channel(ours)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._pidfd = _pidfd(self._process.pid)
        self._poll = select.poll()
        for descriptor in (self._channel.fileno(), self._output.fileno(), self._wake, self._pidfd):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    @property
    def pid(self) -> int:
        """Process id, also that of its process group and session."""
        return self._process.pid

    @property
    def printed(self) -> tuple[str, ...]:
        """The last lines that the process printed."""
        return tuple(self._printed)

    def memory_gb(self) -> float:
        """Resident memory of the process and its descendants, in 10⁹ bytes."""
        return sum(_resident_bytes(pid) for pid in [self.pid, *_descendants(self.pid)]) / _GB

    def has_exited(self) -> bool:
        """Whether the process has ended by itself; it stays a zombie until `close`."""
        return self._is_closed or self._status() is not None

    def has_lost_its_folder(self) -> bool:
        """Whether someone removed the folder for its temporary files."""
        return not self._folder.path.is_dir()

    def ask(
        self,
        command: Mapping[str, object],
        *,
        limit_s: float,
        memory_gb: float,
        on_event: Callable[[Message], None],
        progress_extends: bool = False,
    ) -> Message:
        """The process's reply to a command.

        Args:
            command: What to do.
            limit_s: Seconds until the process counts as hung.
            memory_gb: Resident memory at which it counts as out of bounds.
            on_event: Is given what the process says on the way.
            progress_extends: Whether every sign of progress starts the limit anew.

        Raises:
            ProcessLost: There will be no reply. The process still has to be closed.
        """
        self._lines_left = _LINES_PER_COMMAND
        taken = False
        with contextlib.suppress(OSError):  # a dead process is noticed below
            self._channel.send(command)
        look_s = self._clock()
        deadline_s = look_s + limit_s
        alive = True
        while True:
            for message in self._messages(taken):
                if "taken" in message:
                    taken = True
                elif "progress" in message or "step" in message:
                    on_event(message)
                    if progress_extends:
                        deadline_s = self._clock() + limit_s
                else:
                    return message
            if not alive:
                raise ProcessLost(Fault.CRASHED, self._how_it_ended(), taken=taken)
            if self._interrupted:
                raise ProcessLost(Fault.STOPPED, "it was told to stop", taken=taken)
            now_s = self._clock()
            if now_s >= deadline_s:
                detail = f"no result came within {limit_s:g} seconds"
                raise ProcessLost(Fault.HUNG, detail, taken=taken)
            if now_s >= look_s:
                look_s = now_s + _WATCH_EVERY_S
                used_gb = self.memory_gb()
                if used_gb > memory_gb:
                    detail = f"it used {used_gb:.1f} GB of memory, {memory_gb:g} GB are allowed"
                    raise ProcessLost(Fault.MEMORY, detail, taken=taken)
            alive = self._wait(min(deadline_s, look_s) - now_s)

    def interrupt(self) -> None:
        """Make the `ask` in progress, or the next one, end at once. From any thread."""
        with self._closed:
            if not self._is_closed:
                self._interrupted = True
                os.eventfd_write(self._wake, 1)

    def close(self, *, grace_s: float = 0.0) -> None:
        """End the process and everything it started, and reap it.

        Args:
            grace_s: How long it may take to end by itself; 0: it is killed at once.
        """
        with self._closed:
            if self._is_closed:
                return
            self._is_closed = True
        self._poll.unregister(self._wake)
        self._poll.unregister(self._channel.fileno())
        self._channel.close()
        deadline_s = self._clock() + grace_s
        while self._status() is None and (left_s := deadline_s - self._clock()) > 0:
            self._poll.poll(1000 * min(left_s, _WATCH_EVERY_S))
            self._take_output()
        self._kill()
        self._take_output()
        self._output.close()
        os.close(self._wake)
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._folder.remove()

    def _kill(self) -> None:
        """Kill the whole group, and what left it, before the leader's id is free again."""
        strays = _descendants(self.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # One that hangs in a driver or on a dead share outlives even SIGKILL for a
        # while; the daemon does not wait for it, and Popen reaps it later.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_WAIT_S)

    def _messages(self, taken: bool) -> Iterator[Message]:
        try:
            while (message := self._channel.next_message()) is not None:
                yield message
        except ProtocolError as error:
            raise ProcessLost(Fault.CRASHED, f"it talked nonsense: {error}", taken=taken) from error

    def _wait(self, timeout_s: float) -> bool:
        """Wait for something to happen; False when the process has ended."""
        ready = {descriptor for descriptor, _ in self._poll.poll(1000 * max(timeout_s, 0.0))}
        self._take_output()
        if self._pidfd in ready:
            # What it sent with its last breath counts.
            while self._has_sent() and self._fill():
                pass
            return False
        return self._channel.fileno() not in ready or self._fill()

    def _has_sent(self) -> bool:
        return bool(select.select([self._channel], [], [], 0)[0])

    def _fill(self) -> bool:
        try:
            return self._channel.fill()
        except OSError:  # reset: it died with a command unread
            return False

    def _take_output(self) -> None:
        """Read what the process printed, so that it never blocks on a full pipe."""
        while not self._output_ended:
            try:
                data = os.read(self._output.fileno(), 65536)
            except BlockingIOError:
                return
            if not data:
                self._output_ended = True
                self._poll.unregister(self._output.fileno())
            *lines, self._half_line = (self._half_line + data).split(b"\n")
            self._half_line = self._half_line[:_LINE_LENGTH]
            for line in lines:
                self._note(line)
        if self._half_line:
            self._note(self._half_line)
            self._half_line = b""

    def _note(self, line: bytes) -> None:
        text = line[:_LINE_LENGTH].decode("utf-8", errors="replace")
        text = "".join(char if char.isprintable() else " " for char in text).strip()
        if not text:
            return
        self._printed.append(text)
        self._lines_left -= 1
        if self._on_output is not None and self._lines_left >= 0:
            self._on_output(text)

    def _status(self) -> os.waitid_result | None:
        """How the process ended, None while it lives; it is not reaped by this."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)

    def _how_it_ended(self) -> str:
        if self._pidfd is not None:
            # Its end of the socket closes a moment before the process is gone.
            select.select([self._pidfd], [], [], _KILL_WAIT_S)
        status = self._status()
        if status is None:
            return "it closed its connection"
        if status.si_code == os.CLD_EXITED:
            return f"it ended by itself with exit code {status.si_status}"
        if status.si_status == signal.SIGKILL:
            return "the system killed it, most likely because memory ran out"
        return f"it crashed ({signal.strsignal(status.si_status)})"


def _command(descriptor: int, niceness: int) -> list[str]:
    """The command line: this interpreter, nothing imported from the working directory."""
    numbers = [str(descriptor), str(os.getpid()), str(niceness)]
    return [sys.executable, "-P", "-s", "-m", "daemon.reader", *numbers]


def _environment(ours: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The child's environment; without settings (passwords), for poppler inherits it."""
    environment = {
        name: value
        for name, value in ours.items()
        if name not in _NOT_FOR_THE_CHILD and not name.startswith("SCANMD_")
    }
    threads = str(len(os.sched_getaffinity(0)))
    for name, value in (_PASSIVE | dict.fromkeys(_THREAD_VARIABLES, threads)).items():
        environment.setdefault(name, value)
    environment |= _OFFLINE
    environment["PYTHONUNBUFFERED"] = "1"
    environment["TMPDIR"] = str(temporary)
    # In an installation the interpreter finds the package by itself; a checkout is
    # found only because the daemon was started there.
    root = str(Path(__file__).resolve().parent.parent)
    if root not in site.getsitepackages():
        paths = [root, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


def _remove_unless_locked(folder: Path) -> None:
    with contextlib.suppress(OSError):  # somebody's, in use, or gone meanwhile
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where there is one."""
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, or a sandbox that forbids it
        return None


def _descendants(pid: int) -> list[int]:
    """Ids of everything the process started that is still below it."""
    found: list[int] = []
    for task in _listed(Path(f"/proc/{pid}/task")):
        for child in _read(Path(f"/proc/{pid}/task/{task}/children")).split():
            found += [int(child), *_descendants(int(child))]
    return found


def _resident_bytes(pid: int) -> int:
    fields = _read(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0


def _listed(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:  # it ended meanwhile
        return []


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it ended meanwhile
        return b""
