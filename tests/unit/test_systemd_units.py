"""The unit files: score, comments, and what systemd itself says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def exposure(folder):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", folder / "scanmd.service"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(re.search(r"exposure level for scanmd\.service: ([\d.]+)", done.stdout)[1])


@pytest.fixture
def installed(tmp_path):
    """The unit as installed, with a drop-in folder."""
    shutil.copy(UNITS / "scanmd.service", tmp_path)
    (tmp_path / "scanmd.service.d").mkdir()
    return tmp_path


@needs_systemd
def test_the_cpu_unit_exposes_little(installed):
    assert exposure(installed) <= 0.6


@needs_systemd
def test_the_gpu_unit_exposes_little(installed):
    before = exposure(installed)
    shutil.copy(UNITS / "scanmd-gpu.conf", installed / "scanmd.service.d/20-gpu.conf")
    assert before < exposure(installed) <= 1.0


@needs_systemd
def test_systemd_understands_every_line(installed):
    shutil.copy(UNITS / "scanmd-gpu.conf", installed / "scanmd.service.d/20-gpu.conf")
    text = (installed / "scanmd.service").read_text()
    # The program is not installed here; any that exists will do.
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)
    (installed / "scanmd.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", installed / "scanmd.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "scanmd" not in done.stderr


@pytest.mark.parametrize("name", ["scanmd.service", "scanmd-gpu.conf"])
def test_every_hardening_line_says_why(name):
    text = (UNITS / name).read_text()
    hardening = text.partition("# --- Hardening")[2] or text.partition("[Service]")[2]
    lines = hardening.partition("[Install]")[0].splitlines()
    explained = False
    for line in lines[1:] if lines else []:
        if line.startswith("#"):
            explained = True
        elif "=" in line:
            assert explained or line.startswith(("Ambient", "Environment=")), line
            explained = False


def test_the_safety_net_spares_live_jobs_and_inboxes():
    lines = [
        line.split() for line in (UNITS / "scanmd.tmpfiles.conf").read_text().splitlines()
        if line and not line.startswith("#")
    ]  # fmt: skip
    ages = {line[1]: line[5] for line in lines}
    assert ages.pop("/var/lib/scanmd/work") == "bcm:3d"
    assert set(ages.values()) == {"-"}
