"""``jupyter tpu sync`` with a pod of two hosts, by real commands over real SSH."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell, Terminal
from waiting import until

from jupyter_tpu.cli import main


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[str]:
    with emulator.tpu("sync", "v4-16", "us-central2-b") as node:
        yield node["name"].rpartition("/")[2]


@pytest.fixture(scope="module")
def homes(emulator: Any, tpu: str) -> list[Path]:
    """The home folder of each host."""
    return [Path(host["folder"], "home", "tpu") for host in emulator.hosts(tpu)]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (folder / ".gitignore").write_text("*.npz\n")
    (folder / "data.npz").write_text("large")
    return folder


@pytest.fixture
def sync(
    emulator: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """``sync(*words)``: its exit code, and what it says."""
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)

    def run(*words: object) -> tuple[int, str, str]:
        code = main(["sync", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_project_goes_to_all_hosts_and_its_results_come_back(sync, tpu, homes, here):
    code, out, err = sync(here, f"{tpu}:a project", "--dry-run")
    assert (code, err) == (0, "")
    assert "Would copy 2 files (15 bytes) to 2 hosts" in out
    assert "would copy    train.py" in out
    assert not any((home / "a project").exists() for home in homes)

    code, out, err = sync(here, f"{tpu}:a project")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "Copied 2 files (15 bytes) to 2 hosts"
    for home in homes:
        assert (home / "a project/train.py").read_text() == "print(1)\n"
        assert not (home / "a project/data.npz").exists()

    # Both sides change it, on one host only.
    (here / "train.py").write_text("print(2)\n")
    (homes[1] / "a project/train.py").write_text("print(3)\n")
    (homes[0] / "a project/result.txt").write_text("0.99")
    code, out, err = sync(here, f"{tpu}:a project")
    assert code == 1
    assert "1 file was not copied, because both sides have changed." in err
    assert "CONFLICT" in out
    assert "train.py  changed on both sides (host 1)" in out
    assert (homes[0] / "a project/train.py").read_text() == "print(2)\n"
    assert (homes[1] / "a project/train.py").read_text() == "print(3)\n"

    code, out, err = sync(f"{tpu}:a project", here, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["written"] == ["result.txt"]
    assert result["pull"] is True
    assert (here / "result.txt").read_text() == "0.99"

    # Large changes cross the line once: the hosts send them on.
    (here / "large").write_bytes(os.urandom(4_000_000))
    code, out, _ = sync(here, f"{tpu}:a project", "--only", "large", "--json")
    assert code == 0
    assert sum(host["transferred"] for host in json.loads(out)["hosts"]) < 5_000_000
    for home in homes:
        assert (home / "a project/large").read_bytes() == (here / "large").read_bytes()

    code, out, _ = sync(here, f"{tpu}:a project", "--overwrite", "--only", "train.py")
    assert code == 0
    assert (homes[1] / "a project/train.py").read_text() == "print(2)\n"
    assert not (homes[1] / "a project/result.txt").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("{here}", "no-such-tpu"), "no-such-tpu"),
        (("{here}/none", "{tpu}"), "The folder {here}/none does not exist on this computer."),
        (("{here}", "{tpu}:../x"), "'../x' is not a path of a folder or file."),
        (("{here}", "{tpu}", "--only", "../x"), "'../x' is not a path of a folder or file."),
        (("{here}", "{tpu}", "--max-total", "0"), "'--max-total': 0.0 is not in the range x>0"),
        (("{here}", "./there"), "'./there' is not a TPU."),
        (("{tpu}:none", "{here}"), "/home/tpu/none does not exist on "),
        (("{tpu}:none", "{here}", "--worker", "7"), "{tpu} has no host 7."),
        (("{tpu}:none", "{here}", "--watch"), "Watching only works from here to the TPU."),
    ],
)
def test_what_can_not_be_synced_is_reported_in_one_line(sync, tpu, here, words, complaint):
    code, _, err = sync(*(word.format(here=here, tpu=tpu) for word in words))
    assert code in (1, 2)
    assert err.count("\n") == 1
    assert complaint.format(here=here, tpu=tpu) in err


def test_watching_copies_each_change_also_after_the_links_were_cut_and_ctrl_c_ends_it(
    emulator, faults, tpu, homes, here
):
    shell = Shell(here.parent, **emulator.environment)
    watching = Terminal(shell, "sync", str(here), f"{tpu}:watched", "--watch")
    watching.expect("Copied 2 files")

    def arrives(text: str) -> None:
        (here / "train.py").write_text(text)
        until(
            lambda: all((home / "watched/train.py").read_text() == text for home in homes),
            120,
            lambda: watching.text,
        )
        watching.expect("Copied 1 file")

    arrives("print(2)\n")
    faults(kind="cut-links", node=tpu)
    arrives("print(3)\n")
    watching.type("\x03")
    watching.expect("keeps what was copied")
    assert watching.end() == 0
