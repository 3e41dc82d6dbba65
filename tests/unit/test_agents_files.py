"""Which files of this computer a coding agent copies: those of one folder, by the rules of sync,
and nothing that is hidden or has credentials."""

import functools
import os
from pathlib import Path

import pytest
from test_copy_both_ends import copy

from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.files.agent_files import (
    AgentSource,
    check_folder,
    is_open,
    open_destination,
    open_path,
)
from jupyter_tpu.files.sync.bases import Bases
from jupyter_tpu.files.sync.local import LocalProject
from jupyter_tpu.on_host.files.copy.main import _is_private
from jupyter_tpu.on_host.files.copy.sender import Listing
from jupyter_tpu.on_host.files.messages import TransferFailure
from jupyter_tpu.on_host.files.tree import is_private

OPEN = {"train.py", "tokenizer.json", "src/model.py"}
CLOSED = {
    *(".env", ".git/config", "src/.netrc", "deploy.pem", "keys/id_ed25519", "hf_token.txt"),
    *("my-service-account.json", "CREDENTIALS.json", "client_secret_1.json", "config/kaggle.json"),
}
IGNORED = {"data/big.bin", "src/local.yaml"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519").write_text("key")
    (tmp_path / ".bashrc").write_text("mine")
    return tmp_path


@pytest.fixture
def project(home: Path) -> Path:
    folder = home / "project"
    for path in OPEN | CLOSED | IGNORED:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    (folder / ".gitignore").write_text("/data/\n!.env\n")
    (folder / "src/.gitignore").write_text("local.yaml\n")
    return folder


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def listing(root: Path, *sources: Path) -> Listing:
    """As `copying.upload` makes it for an agent."""
    rules = [AgentSource(str(root), str(source)) for source in sources]
    tops = [os.fsencode(source) for source in sources]
    return Listing(tops, lambda number, *entry: rules[number].leaves_out(*entry))


def test_the_home_folder_one_above_it_and_hidden_ones_are_no_folder_for_agents(home, project):
    assert check_folder(project) == project.resolve()
    assert check_folder(project / "src") == (project / "src").resolve()
    link = project / "home"
    link.symlink_to(home)
    for folder in (home, home.parent, Path("/"), home / ".ssh", project / ".git", link):
        with pytest.raises(InvalidInput):
            check_folder(folder)


def test_an_agent_names_no_file_that_is_elsewhere_hidden_ignored_or_has_credentials(home, project):
    (project / "key").symlink_to(home / ".ssh/id_ed25519")
    (project / "up").symlink_to(home)
    (project / "env").symlink_to(".env")
    for path in OPEN:
        assert open_path(project, str(project / path)) == str(project / path)
    named = {"../.bashrc", "key", "up", "up/.ssh/id_ed25519", "env", ".git", "data"}
    for path in CLOSED | IGNORED | named:
        with pytest.raises(TPUError) as refused:
            open_path(project, str(project / path))
        assert refused.value.reason is Reason.PERMISSION, path
    for path in CLOSED | {"../.bashrc", "key", "up/new.txt", "env", "src/.new/x", "~/.bashrc"}:
        with pytest.raises(TPUError, match="A coding agent may not write"):
            open_destination(project, path if path[0] == "~" else str(project / path))
    assert open_destination(project, f"{project}/data/") == f"{project}/data/"
    assert open_destination(project, f"{project}/new/out.txt") == f"{project}/new/out.txt"


def test_of_a_folder_an_agent_copies_what_is_open(project, tmp_path):
    to = tmp_path / "host"
    copy(to=to, listing=listing(project, project))
    assert files_of(to) == OPEN
    inner = tmp_path / "inner"
    copy(to=inner, listing=listing(project, project / "src"))
    assert files_of(inner) == {"model.py"}


def test_a_sync_of_an_agent_takes_the_same_files(project, tmp_path, own_data):
    limits = (10**9, 10**9, 1000)
    mine = LocalProject(project, Bases(tmp_path / "bases"), limits, for_agent=True)
    assert set(mine.find()[0]) == OPEN
    assert all(mine.leaves_out(path) for path in CLOSED)  # which a host would send, too
    persons = LocalProject(project, Bases(tmp_path / "bases"), limits)
    assert ".env" in persons.find()[0]


def test_what_a_tpu_sends_to_an_agents_folder_replaces_nothing_of_a_person(home, project):
    there = home / "results"
    for name in ("loss.txt", "out/log.txt", "out/.bash_logout"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text("from the TPU")
    may_write = functools.partial(is_open, str(project))
    # The host leaves out what is closed.
    copy(to=project, listing=Listing([os.fsencode(there)], _is_private), may_write=may_write)
    assert files_of(project / "results") == {"loss.txt", "out/log.txt"}
    # One that does not is refused, as a whole.
    for source in (there, there / "out"):
        with pytest.raises(TransferFailure) as refused:
            copy(source, to=project / "again", may_write=may_write)
        assert refused.value.code == "CLOSED"
        assert not (project / "again").exists()
    # A link in the folder leads nowhere else.
    (project / "loss.txt").symlink_to(home / ".bashrc")
    with pytest.raises(TransferFailure) as refused:
        copy(there / "loss.txt", to=project, overwrite=True, may_write=may_write)
    assert refused.value.code == "CLOSED"
    assert (home / ".bashrc").read_text() == "mine"


def test_usual_names_are_not_taken_for_credentials():
    for path in ("tokenizer.json", "tokens.py", "keys.py", "src/token_ids.npy", "secretary/a.py"):
        assert not is_private(path), path
    for path in ("secret", "app/secrets.toml", "my-secret.txt", "Secret_Key.txt"):
        assert is_private(path), path
