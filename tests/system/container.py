"""A Debian system in a container, booted with its own systemd, scanmd installed in it.

The base system is made once (debootstrap) and kept in the ignored `build/system`; each
test run works on an overlay above it, so nothing a test does stays.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
CACHE = REPO / "build/system"
PACKAGES = "systemd,systemd-sysv,dbus,python3,python3-venv,poppler-utils,ca-certificates,procps"
_TOOLS = ("systemd-nspawn", "debootstrap", "nsenter", "apt-get")
_STAMP = "scanmd-base-1"


class Container:
    """A running container; commands run inside of it as root."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self._name = name
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._init = 0

    def boot(self) -> None:
        """Start it; returns when systemd says that everything is started."""
        # Neither registered nor in a scope of its own: there may be no systemd outside.
        command = [
            "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot",
            f"--directory={self.root}", f"--machine={self._name}", "--console=pipe",
            f"--bind-ro={REPO}:/src", "--kill-signal=SIGRTMIN+3",
        ]  # fmt: skip
        self._nspawn = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        wait_for(self._find_init, 30, "the container's init")
        wait_for(
            lambda: self.run("systemctl", "is-system-running", check=False).strip()
            in ("running", "degraded"),
            60, "the container to boot",
        )  # fmt: skip

    def _find_init(self) -> bool:
        assert self._nspawn is not None
        if self._nspawn.poll() is not None:
            why = (self._nspawn.stderr.read() if self._nspawn.stderr else b"").decode()
            pytest.skip(f"systemd-nspawn cannot run here: {why.strip()}")
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children")
        for pid in children.read_text().split():
            if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                self._init = int(pid)
                return True
        return False

    def run(self, *command: str, check: bool = True) -> str:
        """What `command` prints, run inside of the container."""
        done = subprocess.run(
            ["nsenter", f"--target={self._init}", "--mount", "--uts", "--ipc", "--net", "--pid",
             "--", *command],
            capture_output=True, text=True, check=False, timeout=300,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "LANG": "C.UTF-8", "SYSTEMD_PAGER": ""},
        )  # fmt: skip
        if check and done.returncode:
            pytest.fail(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", unit, f"--property={name}", "--value").strip()

    def path(self, inside: str) -> Path:
        """Where the running container's `inside` is seen from here."""
        return Path(f"/proc/{self._init}/root{inside}")

    def stop(self) -> None:
        """Shut it down."""
        if self._nspawn is None:
            return
        if self._nspawn.poll() is None:
            self._nspawn.terminate()
            try:
                self._nspawn.wait(30)
            except subprocess.TimeoutExpired:
                self._nspawn.terminate()
                self._nspawn.wait(10)
        if self._nspawn.stderr:
            self._nspawn.stderr.close()


def wait_for(condition, limit_s, what):
    """Ask until `condition()` holds."""
    end_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end_s:
            pytest.fail(f"waited {limit_s} s in vain for {what}")
        time.sleep(0.2)


def need_tools() -> None:
    """Skip where no container can be made, saying why."""
    if os.geteuid():
        pytest.skip("system tests need root")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"missing {missing}: apt-get install systemd-container debootstrap")


def base_system() -> Path:
    """The cached Debian system without scanmd."""
    root = CACHE / "rootfs"
    if (root / "etc" / _STAMP).exists():
        return root
    CACHE.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root]
    done = subprocess.run([*command, _mirror()], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"debootstrap failed: {done.stdout.strip().splitlines()[-1:]}")
    (root / "etc" / _STAMP).touch()
    return root


def _mirror() -> str:
    """The mirror that apt is configured with."""
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE)", "Created-By: Packages"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    uris = [line.split()[0] for line in listing.splitlines() if line.endswith(" bookworm")]
    if not uris:
        pytest.skip("apt has no source for Debian bookworm")
    return uris[0]


def wheelhouse() -> tuple[Path, Path]:
    """The lock file, and a folder with every wheel it names (and the build's)."""
    lock = Path(os.environ.get("SCANMD_TEST_LOCK", REPO / "requirements.lock"))
    if not lock.exists():
        pytest.skip(f"there is no {lock}")
    wheels = CACHE / "wheels"
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, "-f", wheels]
    subprocess.run([*pip, "-r", lock], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([*pip, "setuptools>=77"], check=True, stderr=subprocess.DEVNULL)
    return lock, wheels


def overlay(lower: list[Path], folder: Path) -> Path:
    """Mount a writable overlay above `lower` (topmost first)."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={folder}/upper,workdir={folder}/work"
    done = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, folder / "root"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no overlay can be mounted: {done.stderr.strip()}")
    return folder / "root"


def unmount(folder: Path) -> None:
    """Undo `overlay` and remove what was written."""
    subprocess.run(["umount", folder / "root"], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def install(
    root: Path, lock: Path, wheels: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run the installer on `root`, offline, from the wheels."""
    target = root / "wheels"
    if not target.exists():
        shutil.copytree(wheels, target)
    environ = os.environ | {"LOCK": str(lock), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels",
                            "PIP_CONFIG_FILE": "/dev/null", "PIP_ROOT_USER_ACTION": "ignore",
                            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}  # fmt: skip
    return subprocess.run(
        [REPO / "systemd/install.sh", "--no-apt", "--root", root, *options],
        capture_output=True, text=True, check=False, env=environ,
    )  # fmt: skip
