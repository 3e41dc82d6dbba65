"""Which Python an environment gets, and what is installed into it."""

import os
import shutil
import subprocess
import sys

import pytest
from refusals import raises

from jupyter_tpu.environment import EnvironmentSpec
from jupyter_tpu.environment.pythons import DOWNLOADED, choose, missing
from jupyter_tpu.environment.requirements import requirements
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.on_host.calls import paths
from jupyter_tpu.on_host.environments.probe import pythons
from jupyter_tpu.on_host.environments.virtualenv import create_venv

HOST = {"3.10.12": "/usr/bin/python3", "3.12.4": "/opt/12", "3.13.1": "/opt/13"}


def chosen(version: str | None, *hosts: dict[str, str], existing: str = "") -> str:
    return choose(version, hosts, [existing] * len(hosts), "default").version


def test_the_newest_that_all_hosts_have_is_taken():
    assert chosen(None, HOST) == "3.13"
    assert chosen(None, HOST, {"3.12.9": "/x", "3.11.1": "/y"}) == "3.12"


def test_one_that_jax_does_not_support_is_not_taken():
    assert chosen(None, {"3.10.12": "/usr/bin/python3"}) == DOWNLOADED
    assert chosen(None, {"3.12.1": "/a", "3.99.0": "/b"}) == "3.12"


def test_what_is_asked_for_is_found_by_minor_or_full_version():
    assert choose("3.12", [HOST], [""], "default").path_in(HOST) == "/opt/12"
    assert choose("3.12.4", [HOST], [""], "default").path_in(HOST) == "/opt/12"
    assert choose("3.12.5", [HOST], [""], "default").path_in(HOST) == "3.12.5"


def test_an_environment_that_is_there_keeps_its_python():
    assert chosen(None, HOST, existing="3.12.4") == "3.12"
    with raises(Reason.CONFLICT, r"default has Python 3\.12\.4, not 3\.13"):
        chosen("3.13", HOST, existing="3.12.4")


def test_a_linked_python_is_not_mixed_with_the_systems_of_the_same_version(tmp_path, monkeypatch):
    """As pyenv's in /usr/local/bin. Shown before: an environment that does not start."""
    minor = "python{}.{}".format(*sys.version_info)
    command, library = tmp_path / "usr/local/bin" / minor, tmp_path / "usr/lib" / minor
    for folder in (command.parent, library / "lib-dynload"):
        folder.mkdir(parents=True)
    command.symlink_to(os.path.realpath(sys.executable))
    (library / "os.py").write_text("raise SystemExit('of another Python')\n")
    uv = shutil.which("uv", path=os.path.dirname(sys.executable))
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(paths, "ROOT", str(tmp_path / "ours"))
    path = pythons()["{}.{}.{}".format(*sys.version_info)]
    create_venv(uv, "default", path)
    python = tmp_path / "ours/environments/default/bin/python"
    assert subprocess.check_output([python, "-c", "print(42)"], text=True) == "42\n"


@pytest.mark.parametrize(
    ("bounds", "version"),
    [
        (">=3.10", "3.13"),
        (">=3.11,<3.13", "3.12"),
        ("<3.13", "3.12"),
        (">=3.12.3,<3.13", "3.12"),
        (">=3.14", "3.14"),
        ("<3.12", "3.11"),
        ("==3.11.4", "3.11.4"),
    ],
)
def test_bounds_choose_of_what_the_hosts_have_and_else_what_is_downloaded(bounds, version):
    assert chosen(bounds, HOST) == version
    assert chosen("!=3.13.*", {"3.13.1": "/opt/13"}) == DOWNLOADED
    assert chosen(">=3.11", HOST, existing="3.12.4") == "3.12"
    with pytest.raises(TPUError, match=r"default has Python 3\.12\.4, not <3\.12"):
        chosen("<3.12", HOST, existing="3.12.4")


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("python3", "not a Python version"),
        ("3.8", "JAX needs Python 3.11"),
        ("<3.11", "JAX needs Python 3.11 or newer, and <3.11 allows none of these"),
        ("2.7", "JAX needs Python 3.11"),
        ("3.1;x", "not a"),
        ("3.12\n", "not a"),
    ],
)
def test_a_python_that_can_not_be_meant_is_refused(version, sentence):
    with pytest.raises(TPUError, match=sentence):
        chosen(version, HOST)


def test_a_python_that_can_not_be_had_names_those_that_are_there():
    error = missing("3.14", [HOST])
    assert "3.10.12, 3.12.4, 3.13.1" in error.message
    assert error.hint == "Choose 3.12.4 or 3.13.1."


def test_real_hosts_get_jax_for_tpus_and_emulated_ones_the_plain_one():
    spec = EnvironmentSpec(environment="default", packages=["flax"], requirements="optax>=0.2\n")
    assert requirements(spec, emulated=False).splitlines() == [
        "jax[tpu]", "ipykernel", "pyzmq", "ipywidgets", "cloudpickle", "matplotlib", "tensorstore",
        "tqdm", "msgspec", "numpy", "flax", "optax>=0.2",
    ]  # fmt: skip
    assert requirements(spec, emulated=True).splitlines()[0] == "jax"
