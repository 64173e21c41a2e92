"""What `import ocr` promises: every name, and nothing heavy until it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ocr

ROOT = Path(ocr.__file__).parent.parent
HEAVY = ("numpy", "cv2", "PIL", "onnxruntime", "openvino", "torch", "rapidocr", "transformers")


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys\nprint(*[n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import ocr",
        "import daemon.reader_pool",
        "import daemon.reader_protocol",
        "from ocr import ReadOptions, MarkdownOptions, Page, OcrError, EngineInfo, SourceKind",
        "from ocr import choose_engine; choose_engine('auto')",
        "from ocr import sniff, tail_state; sniff(b'%PDF-1.7')",
    ],
)
def test_the_daemon_s_imports_load_nothing_heavy(code):
    assert loaded_by(code) == set()


def test_every_public_name_can_be_had():
    for name in ocr.__all__:
        assert getattr(ocr, name) is not None
    assert set(ocr.__all__) <= set(dir(ocr))


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(ocr.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [alias.name for node in guarded.body for alias in node.names]
    assert sorted(seen) == sorted(ocr.__all__)


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Scanner'"):
        ocr.Scanner  # noqa: B018 - looking it up is the test
