"""The installed base (once per run) and a booted container above it."""

from __future__ import annotations

import shutil

import pytest

from tests.system import container as box


@pytest.fixture(scope="session")
def installed():
    """(layers, first installer's output): Debian with scanmd installed."""
    box.need_tools()
    base = box.base_system()
    lock, wheels = box.wheelhouse()
    folder = box.CACHE / "installed"
    box.unmount(folder)
    root = box.overlay([base], folder)
    try:
        done = box.install(root, lock, wheels)
        assert done.returncode == 0, done.stdout + done.stderr
        yield root, lock, wheels, done.stdout
    finally:
        box.unmount(folder)


@pytest.fixture(scope="module")
def container(installed):
    """A booted container; what tests change is shared within their module only."""
    folder = box.CACHE / "running"
    box.unmount(folder)
    root = box.overlay([box.CACHE / "installed/upper", box.CACHE / "rootfs"], folder)
    machine = box.Container(root, "scanmd-test")
    try:
        machine.boot()
        yield machine
    finally:
        machine.stop()
        box.unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)
