"""The engine reads the real pages as well as it is said to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocr.options import Profile
from tests.quality import score

pytestmark = [
    pytest.mark.quality,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not (score.CORPUS / "manifest.json").is_file(), reason="no corpus here"),
]


def test_the_corpus_is_read_in_order_and_nearly_without_error(tmp_path: Path) -> None:
    folders = score.read_corpus(score.CORPUS, tmp_path, profile=Profile.ACCURATE)
    summary = score.scores(score.CORPUS, folders["rapid-accurate"])
    assert summary["missing"] == 0
    assert summary["wr"] > 0.975
    assert summary["wp"] > 0.97
    assert summary["cer"] < 0.05
    assert summary["ord"] > 0.97
