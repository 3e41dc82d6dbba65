"""`jupyter tpu plan`: what it refuses before anything is compiled."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_tpu.cli import main

TRAIN = """\
from helper import SIZE

def step(x):
    return x @ x

def step_args():
    return (((SIZE, SIZE), "bfloat16"),)

"""


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that imports another one of its folder."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "helper.py").write_text("SIZE = 256\n")
    file = tmp_path / "train_of_test.py"
    file.write_text(TRAIN)
    yield file
    for name in ("helper", "train_of_test"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["train.py"], "train.py is not FILE.py:FUNCTION. For example: train.py:step"),
        (["{}:fit"], "has no function fit."),
        (["missing.py:step"], "There is no file missing.py."),
        (["{}:step_args"], "Define step_args_args there"),
        (["{}:step", "--args", "1 / 0"], "1 / 0 gives no arguments: ZeroDivisionError"),
        (["{}:step", "--mesh", "data"], "'data' is not AXIS=SIZE."),
        (["{}:step", "--shard", "data"], "--shard data needs an axis of the mesh."),
        (["{}:step", "--axes", "data", "--mesh", "data=4"], "can't be used with --mesh"),
        (["{}:step", "--axes", "model"], "Unknown axis 'model'."),
        (["{}:step", "--timeout", "soon"], "'soon' is not a duration."),
        (["{}:step", "--type", "v9"], "The TPU type v9 does not exist."),
    ],
)
def test_what_is_wrong_is_one_sentence(words, complaint, train, capsys):
    assert main(["plan", *(word.format(train) for word in words)]) in (1, 2)
    errors = capsys.readouterr().err
    assert complaint in errors
    assert errors.count("\n") == 1


def test_a_file_that_fails_says_how(train, capsys):
    train.write_text("import no_such_package\n")
    assert main(["plan", f"{train}:step"]) in (1, 2)
    errors = capsys.readouterr().err
    assert "can't be imported: ModuleNotFoundError: No module named 'no_such_package'" in errors
