"""`jupyter tpu kernel add --slices`: what one kernel on several TPUs needs of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_tpu.cli.slices import add_slices_kernel
from jupyter_tpu.errors import TPUError
from jupyter_tpu.kernels import KernelSpecs


class Session:
    """TPUs with two hosts each, as a server reports them."""

    def __init__(self, **tpus: dict[str, Any]) -> None:
        self._tpus = {
            name: SimpleNamespace(
                name=name,
                **{
                    "project": "p",
                    "zone": "z",
                    "queued": "",
                    "connection": "connected",
                    "emulated": False,
                    "hosts": [0, 1],
                    **fields,
                },
            )
            for name, fields in tpus.items()
        }
        self.fleet = self

    def call(self, answer: Any) -> Any:
        return answer

    def tpu(self, ref: str) -> Any:
        return self._tpus[ref.rpartition("~")[2]]

    def tpus(self) -> Any:
        return SimpleNamespace(tpus=[*self._tpus.values()])


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))

    def register(tpu: str, python: str = "3.12", zone: str = "z") -> None:
        KernelSpecs().register(
            project="p", zone=zone, tpu=tpu, worker=0, environment="default",
            python_version=python, host_python="/env/bin/python", emulator=None, emulated=False,
            variables={},
        )  # fmt: skip

    return register


def add(session: Any, *names: str) -> str:
    return add_slices_kernel(session, names[0], names[1:], "default")


def test_the_tpus_of_a_queued_resource_become_the_slices_of_one_kernel_in_their_order(register):
    queued = {"queued": "job"}
    session = Session(job2=queued, job10=queued, job0=queued, other={"queued": "else"}, own={})
    for name in ("job0", "job2", "job10"):
        register(name)
    assert add(session, "job0", "queued") == (
        "Python 3.12 · job0 + job2 + job10 (3 slices, all 6 hosts)"
    )
    [spec] = [spec for spec in KernelSpecs().list() if spec.slices]
    assert (spec.hosts, spec.config["host_python"]) == (6, "/env/bin/python")
    with pytest.raises(TPUError, match="own is the only TPU of its queued resource"):
        add(session, "own", "queued")


def test_what_can_not_be_one_job_is_refused_with_the_reason(register):
    session = Session(a={}, b={}, far={"zone": "y"}, off={"connection": "disconnected"}, old={})
    for name in ("a", "off"):
        register(name)
    register("far", zone="y")
    register("old", python="3.11")
    for others, problem in (
        (["a"], "A TPU is named twice"),
        (["far"], "far is in another zone than a"),
        (["b"], "b has no kernel of an environment default here"),
        (["off"], "off has no kernel of an environment default here"),
        (["old"], "The environments default differ: Python 3.11, Python 3.12"),
    ):
        with pytest.raises(TPUError, match=problem):
            add(session, "a", *others)
    assert not [spec for spec in KernelSpecs().list() if spec.slices]
