"""Tokens that what runs on TPUs gets from this computer: chosen by name, read when one starts."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from jupyter_tpu import tokens
from jupyter_tpu.commands.token import token as command
from jupyter_tpu.errors import InvalidInput, TPUError
from jupyter_tpu.paths import data_dir


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without tokens."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "tpu"))
    for name in (
        "HF_TOKEN",
        "HF_HOME",
        "HF_TOKEN_PATH",
        "WANDB_API_KEY",
        "NETRC",
        "XDG_CACHE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_only_chosen_tokens_are_passed_and_only_their_names_are_stored(home, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("OTHER_TOKEN", "other")
    assert tokens.passed_variables() == {}
    tokens.pass_on("HF_TOKEN")
    tokens.pass_on("WANDB_API_KEY")
    assert tokens.passed_variables() == {"HF_TOKEN": "hf_secret"}
    file = data_dir() / "tokens.json"
    assert "hf_secret" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tokens.keep_back("HF_TOKEN")
    assert not tokens.keep_back("HF_TOKEN")
    assert tokens.passed_variables() == {}


def test_what_agents_start_gets_only_what_was_named_for_agents(home, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("WANDB_API_KEY", "wandb")
    tokens.pass_on("HF_TOKEN")
    assert tokens.passed_variables(agents=True) == {}
    tokens.pass_on("WANDB_API_KEY", agents=True)
    assert tokens.passed_variables(agents=True) == {"WANDB_API_KEY": "wandb"}
    assert tokens.passed_names() == ["HF_TOKEN", "WANDB_API_KEY"]
    assert not tokens.keep_back("HF_TOKEN", agents=True)
    assert tokens.keep_back("WANDB_API_KEY", agents=True)
    assert tokens.passed_names() == ["HF_TOKEN", "WANDB_API_KEY"]
    tokens.pass_on("HF_TOKEN", agents=True)
    assert tokens.keep_back("HF_TOKEN")  # then nobody gets it
    tokens.pass_on("HF_TOKEN")
    assert tokens.passed_names(agents=True) == []


def test_tokens_that_a_login_stored_are_found_and_the_environment_comes_first(home, monkeypatch):
    (home / ".cache/huggingface").mkdir(parents=True)
    (home / ".cache/huggingface/token").write_text("hf_stored\n")
    (home / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password key\n")
    (home / ".netrc").chmod(0o600)
    for name in ("HF_TOKEN", "WANDB_API_KEY"):
        tokens.pass_on(name)
    assert tokens.passed_variables() == {"HF_TOKEN": "hf_stored", "WANDB_API_KEY": "key"}
    monkeypatch.setenv("HF_TOKEN", "hf_now")
    assert tokens.passed_variables()["HF_TOKEN"] == "hf_now"


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "HF_TOKEN=x", "", "a b", "HF_TOKEN\n"])
def test_what_is_no_tokens_name_is_refused(name):
    with pytest.raises(InvalidInput):
        tokens.pass_on(name)
    assert tokens.passed_names() == []


def test_of_several_tokens_all_are_passed_or_none():
    with pytest.raises(InvalidInput, match="PATH"):
        tokens.pass_on("HF_TOKEN", "PATH")
    assert tokens.passed_names() == []


def test_processes_that_change_the_list_at_once_lose_no_name(home):
    names = [f"TOKEN_{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tokens.pass_on, names))
    assert sorted(tokens.passed_names()) == sorted(names)


def test_a_list_that_cannot_be_stored_is_reported_with_what_to_do(home):
    (data_dir() / "tokens.lock").mkdir()
    with pytest.raises(TPUError, match=r"tokens.json can't be written: Is a directory"):
        tokens.pass_on("HF_TOKEN")


def test_a_damaged_list_passes_nothing(home):
    (data_dir() / "tokens.json").write_text("{")
    assert tokens.passed_names() == []
    (data_dir() / "tokens.json").write_text('{"HF_TOKEN": 1}')
    assert tokens.passed_variables() == {}


def test_the_command_shows_where_a_token_is_found_and_never_the_token(monkeypatch):
    def run(*words: str) -> str:
        return CliRunner().invoke(command, words, catch_exceptions=False).output

    assert "get no token" in run("list")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    said = run("pass", "HF_TOKEN", "WANDB_API_KEY")
    assert "Kernels, commands and jobs on TPUs get HF_TOKEN, WANDB_API_KEY" in said
    assert "WANDB_API_KEY: not found here. Set it where Jupyter is started, or run `wandb" in said
    listed = run("list")
    assert [line.split() for line in listed.splitlines()] == [
        ["TOKEN", "FROM", "AGENTS"],
        ["HF_TOKEN", "environment", "no"],
        ["WANDB_API_KEY", "not", "found", "here", "no"],
    ]
    assert "hf_secret" not in said + listed + run("list", "--json")
    assert "What coding agents start gets them, too" in run("pass", "--agents", "HF_TOKEN")
    assert ["HF_TOKEN", "environment", "yes"] in [line.split() for line in run("list").splitlines()]
    assert "does not get HF_TOKEN" in run("remove", "--agents", "HF_TOKEN")
    assert "don't get HF_TOKEN" in run("remove", "HF_TOKEN")


def test_the_lock_file_is_its_owner_s_only():
    lock = tokens._file().with_suffix(".lock")
    lock.touch(mode=0o644)
    lock.chmod(0o644)
    tokens.pass_on("HF_TOKEN")
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
