"""Which engine is taken, why, and what a wrong name says."""

import pytest

from ocr import EngineUnavailable, choose_engine, load_engine
from tests.engines import EchoEngine


@pytest.fixture
def model_dir(tmp_path):
    (tmp_path / "model-00001.safetensors").touch()
    return tmp_path


def auto(model_dir, *, gpu=None, packages=("torch", "transformers")):
    return choose_engine(
        "auto",
        model_dir=model_dir,
        find_gpu=lambda: gpu,
        installed=lambda package: package in packages,
    )


def test_auto_takes_deepseek_where_gpu_packages_and_weights_are_here(model_dir):
    choice = auto(model_dir)
    assert choice.name == "deepseek"
    assert str(model_dir) in choice.why


def test_auto_takes_rapid_without_a_gpu_and_says_so(model_dir):
    choice = auto(model_dir, gpu="this machine has no NVIDIA GPU")
    assert choice.name == "rapid"
    assert "no NVIDIA GPU" in choice.why


def test_auto_takes_rapid_without_torch_and_says_how_to_get_it(model_dir):
    choice = auto(model_dir, packages=("transformers",))
    assert choice.name == "rapid"
    assert "torch is not installed (pip install 'scanmd[gpu]')" in choice.why


@pytest.mark.parametrize("kind", ["unset", "absent", "empty"])
def test_auto_takes_rapid_without_weights_and_says_where_it_looked(tmp_path, kind):
    (tmp_path / "empty").mkdir()
    choice = auto(None if kind == "unset" else tmp_path / kind)
    assert choice.name == "rapid"
    assert ("configured" if kind == "unset" else str(tmp_path / kind)) in choice.why


def test_a_name_stands_for_itself():
    assert choose_engine("deepseek").name == "deepseek"
    assert choose_engine("package.module:Engine").name == "package.module:Engine"


def test_an_own_engine_is_made_with_its_settings():
    engine = load_engine("tests.engines:EchoEngine", seconds=0.5)
    assert isinstance(engine, EchoEngine)
    assert engine.describe().name == "echo"


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("tesseract", {}, "no engine 'tesseract'. Known are auto, rapid, deepseek"),
        ("no_such_package:Engine", {}, "no_such_package"),
        ("tests.engines:NoSuchEngine", {}, "NoSuchEngine"),
        ("tests.engines:EchoEngine", {"speed": 11}, "speed"),
    ],
)
def test_an_engine_that_cannot_be_made_says_why(name, settings, words):
    with pytest.raises(EngineUnavailable, match=words.replace(".", r"\.")):
        load_engine(name, **settings)
