"""What is said of chips before a kernel starts."""

import os

import pytest

from jupyter_tpu.on_host.agent.daemon import chip_checks
from jupyter_tpu.on_host.agent.daemon.chip_checks import held_by
from jupyter_tpu.on_host.agent.daemon.daemon import Daemon, OperationError
from jupyter_tpu.on_host.agent.protocol import requests


async def test_a_kernel_is_not_started_on_a_host_whose_chips_have_no_driver(tmp_path, monkeypatch):
    monkeypatch.setattr(chip_checks, "chips", lambda: ["v5e"])
    monkeypatch.setattr(chip_checks, "chip_devices", list)
    request = requests.StartKernelRequest(
        id="1",
        launch="1",
        python="/bin/sh",
        key="",
        secret="",
        tpu="my-tpu",
        needs_chips=True,
    )
    with pytest.raises(OperationError) as refused:
        await Daemon(str(tmp_path), "1", "")._start_kernel(request)
    answer = refused.value.answer
    assert answer["reason"] == "CPU_FALLBACK"
    assert answer["message"].startswith("The chips of my-tpu have no device files")
    assert "jupyter tpu doctor my-tpu" in answer["hint"]
    # Whoever wants the CPU gets it.
    request.env = {"JAX_PLATFORMS": "cpu"}
    with pytest.raises(OperationError, match="could not be started"):
        await Daemon(str(tmp_path), "1", "")._start_kernel(request)


def test_all_chips_named_one_by_one_are_booked_as_all_where_each_core_has_a_device_file(
    monkeypatch,
):
    files = [{f"/dev/vfio/{2 * chip}", f"/dev/vfio/{2 * chip + 1}"} for chip in range(4)]
    monkeypatch.setattr(chip_checks, "devices_by_chip", lambda: files)
    request = requests.StartKernelRequest(
        id="1", launch="1", python="/bin/sh", key="", secret="", needs_chips=True
    )
    assert chip_checks.chosen_by(request, {"TPU_VISIBLE_CHIPS": "0,1,2,3"}) == []
    assert chip_checks.chosen_by(request, {"TPU_VISIBLE_CHIPS": "0,1"}) is None


@pytest.mark.parametrize(
    ("owner", "who", "what_to_do"),
    [
        (
            {"kernel": "k1", "notebook": "a/b.ipynb"},
            "the kernel of b.ipynb (",
            "kernel stop my-tpu",
        ),
        ({"job": "1a2b"}, "the job 1a2b (", "`jupyter tpu job stop my-tpu 1a2b`"),
        ({"run": "3c4d"}, "a command that `jupyter tpu run` started (", "chips free my-tpu`"),
        ({}, "process %d of me since 2", "`jupyter tpu chips free my-tpu`"),
    ],
)
def test_a_start_that_finds_chips_in_use_says_what_has_them_and_how_to_end_it(
    owner, who, what_to_do
):
    nobody = {"kernel": "", "notebook": "", "job": "", "run": ""}
    process = {"pid": os.getpid(), "user": "me", "command": "train", "devices": []}
    answer = held_by({**process, **nobody, **owner}, "my-tpu").answer
    assert answer["reason"] == "CHIPS_HELD"
    who = who.replace("%d", str(os.getpid()))
    assert answer["message"].startswith(f"The chips of my-tpu are in use by {who}")
    assert f"process {os.getpid()} of me since 2" in answer["message"]
    assert "UTC: train" in answer["message"]
    assert what_to_do in answer["hint"]
