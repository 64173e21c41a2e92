"""The work folder: private, one locked folder per live job, nothing old."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from daemon.purge import WorkDir

DAY_S = 86400.0
NOW_S = 1_800_000_000.0


def _age(path: Path, days: float) -> None:
    when_s = NOW_S - days * DAY_S
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            os.utime(Path(folder) / name, (when_s, when_s), follow_symlinks=False)
        os.utime(folder, (when_s, when_s))
    os.utime(path, (when_s, when_s))


def test_a_live_job_is_spared_however_old_and_its_folder_goes_with_it(tmp_path: Path) -> None:
    # systemd#32674: suspended for a week
    work = WorkDir(tmp_path / "work")
    with work.job(7) as folder:
        (folder / "source").write_bytes(b"x")
        _age(folder, 30)
        assert work.purge(3 * DAY_S, NOW_S).entries == 0
        assert (folder / "source").exists()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


def test_only_what_is_older_than_the_limit_goes(tmp_path: Path) -> None:
    root = tmp_path / "work"
    for name, days in (("old", 3.1), ("young", 2.9)):
        (root / name / "pages").mkdir(parents=True)
        (root / name / "pages" / "1").write_bytes(b"x" * 10)
        (root / f"{name}.tmp").write_bytes(b"y")
        _age(root / name, days)
        _age(root / f"{name}.tmp", days)
    purged = WorkDir(root).purge(3 * DAY_S, NOW_S)
    assert purged.entries == 2
    assert sorted(path.name for path in root.iterdir()) == ["young", "young.tmp"]


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    job = tmp_path / "work" / "old"
    job.mkdir(parents=True)
    (job / "link").symlink_to(outside)
    (tmp_path / "work" / "link").symlink_to(outside)
    WorkDir(tmp_path / "work").purge(0, NOW_S)
    assert (outside / "precious").exists()


def test_a_removed_work_folder_is_made_again(tmp_path: Path) -> None:
    # paperless-ngx#5592: /tmp was cleaned and everything failed from then on
    work = WorkDir(tmp_path / "state" / "work")
    with work.job(1):
        pass
    shutil.rmtree(tmp_path / "state")
    with work.job(2) as folder:
        assert folder.is_dir()
