"""PyTorch's environments: what they have, when they are usable, and how their processes start."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from refusals import raises

from jupyter_tpu import catalog
from jupyter_tpu.environment import ExpectedHardware, framework_of, launch_variables
from jupyter_tpu.environment.creation import plan
from jupyter_tpu.environment.requirements import requirements
from jupyter_tpu.environment.torch_verification import GENERATIONS, require_generation
from jupyter_tpu.environment.usability import require_usable
from jupyter_tpu.environment.verification import HostCheck
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.records import EnvironmentRecord
from jupyter_tpu.fleet.environments.environment import add_request, merge_request
from jupyter_tpu.fleet.models import ConnectTPU, Environment
from jupyter_tpu.on_host.agent.protocol import process_env

LOCK = "torch==2.13.0+cpu\ntorch-tpu==0.2.0\n"
ON_HARDWARE = ExpectedHardware(emulated=False, devices_per_host=4)


def check(**facts: Any) -> HostCheck:
    """A host with four chips, on which PyTorch did not get them."""
    hardware = {
        "chips": ["v5e"] * 4,
        "device_files": [f"/dev/vfio/{number}" for number in range(4)],
    } | facts.pop("hardware", {})
    normal = {
        "torch": "2.13.0+cpu",
        "packages": {"torch": "2.13.0+cpu", "torch_tpu": "0.2.0", "libtpu": "0.0.52"},
        "platform": "cpu",
        "devices": 0,
        "hardware": hardware,
    }
    return msgspec.convert({**normal, **facts}, HostCheck)


def refusal(of: HostCheck, reason: Reason = Reason.CPU_FALLBACK) -> TPUError:
    with raises(reason) as error:
        require_usable([of], ON_HARDWARE, print, "torch")
    assert error.value.hint
    return error.value


def test_it_has_torch_for_the_cpu_and_torch_tpu_and_no_jax():
    spec = ConnectTPU(framework="torch", packages=["torchvision", "einops"])
    lines = requirements(spec, emulated=False).splitlines()
    index = "  # --index-url https://download.pytorch.org/whl/cpu"
    assert {f"torch{index}", f"torchvision{index}", "torch_tpu", "einops"} <= set(lines)
    assert not [line for line in lines if line.startswith("jax")]
    assert "Install PyTorch and packages" in [step.title for step in plan(spec)]


def test_a_lock_with_torch_tpu_makes_one_unless_another_is_asked_for():
    assert framework_of(ConnectTPU(lock=LOCK)) == "torch"
    assert framework_of(ConnectTPU(lock="jax==0.12.0\n")) == framework_of(ConnectTPU()) == "jax"


def record(request: ConnectTPU) -> EnvironmentRecord:
    ready = Environment(name="default", tpu="my-tpu", zone="z", state="ready")
    return EnvironmentRecord(node_id="1", request=request, environment=ready)


def test_connecting_again_keeps_the_framework_and_another_one_is_refused():
    torch, jax = record(ConnectTPU(framework="torch")), record(ConnectTPU())
    assert merge_request(torch, ConnectTPU(packages=["einops"])).framework == "torch"
    assert framework_of(merge_request(record(ConnectTPU(lock=LOCK)), ConnectTPU())) == "torch"
    for request in (ConnectTPU(framework="jax"), ConnectTPU(lock="jax==0.12.0\n")):
        with raises(Reason.CONFLICT, "The environment default has PyTorch."):
            merge_request(torch, request)
    with raises(Reason.CONFLICT, "The environment default has JAX."):
        merge_request(jax, ConnectTPU(lock=LOCK))


def test_the_defaults_of_new_environments_are_no_other_framework():
    assert add_request(ConnectTPU(packages=["einops"]), ConnectTPU(framework="torch")) == (
        ConnectTPU(framework="torch", packages=["einops"])
    )


def test_a_host_whose_pytorch_has_computed_on_the_tpu_is_usable():
    log: list[str] = []
    require_usable([check(platform="tpu", devices=4)], ON_HARDWARE, log.append, "torch")
    assert log == ["host 0: PyTorch 2.13.0+cpu, TorchTPU 0.2.0, libtpu 0.0.52, 4 devices"]


def test_an_emulated_host_says_what_was_checked_and_what_was_not():
    log: list[str] = []
    require_usable([check()], ExpectedHardware(emulated=True), log.append, "torch")
    assert "TorchTPU can't be checked without TPU chips. Checked: it is imported" in log[0]


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"hardware": {"chips": [], "device_files": []}}, "the host has no TPU chips"),
        ({"hardware": {"chips": ["v3"] * 4}}, "TorchTPU does not support v3"),
        ({"hardware": {"device_files": ["/dev/accel0"]}}, "looks for chips in /dev/vfio"),
        ({"packages": {}}, "the package libtpu is not installed"),
        ({"backend_error": "context.ok() No jellyfish device found."}, "No jellyfish device found"),
    ],
)
def test_why_pytorch_does_not_use_the_tpu_is_one_sentence(facts, sentence):
    assert sentence in refusal(check(**facts)).message


def test_a_pytorch_with_cuda_or_without_torch_tpu_is_refused():
    assert "is for CUDA 13.0" in refusal(check(cuda="13.0"), Reason.ENVIRONMENT).message
    assert "is not installed" in refusal(check(torch=""), Reason.ENVIRONMENT).message


def test_chips_in_use_leave_it_unchecked():
    holder = {"pid": 7, "user": "me", "command": "python"}
    log: list[str] = []
    require_usable([check(hardware={"holders": [holder]})], ON_HARDWARE, log.append, "torch")
    assert log == ["host 0: the chips are in use. So TorchTPU was not checked there"]


def test_a_generation_that_torch_tpu_does_not_know_is_refused_before_anything_is_installed():
    for known in (*GENERATIONS, ""):
        require_generation(known)
    with raises(Reason.INVALID, "TorchTPU does not support v3"):
        require_generation("v3")


def launch(type: str, host: int, hosts: list[int] | None = None) -> dict[str, str]:
    accelerator = catalog.accelerator_type(type)
    addresses = [f"10.0.0.{number}" for number in range(accelerator.hosts)]
    working = list(range(accelerator.hosts)) if hosts is None else hosts
    return dict(launch_variables(accelerator, working, host, addresses))


def test_torchrun_gets_one_process_for_each_device_of_all_hosts():
    variables = launch("v5litepod-16", 2)
    addresses = variables["TORCH_TPU_SLICEBUILDER_ADDRESSES"].split(",")
    assert len(addresses) == 16
    assert addresses[4:6] == ["10.0.0.1:8070", "10.0.0.1:8071"]
    assert variables["TORCH_TPU_TOPOLOGY"] == "4,4,1"
    assert (variables["NNODES"], variables["NODE_RANK"]) == ("4", "2")
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == ("10.0.0.0", "29500")
    torchrun = {name: value for name, value in variables.items() if name.startswith("PET_")}
    assert torchrun == {
        "PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "4",
        "PET_MASTER_ADDR": "10.0.0.0", "PET_MASTER_PORT": "29500",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("type", "topology"),
    # As torch_tpu 0.2.0's _internal/utils/hardware.py has them for one host.
    [("v5litepod-1", "1,1,1"), ("v5litepod-4", "2,2,1"), ("v5litepod-8", "2,4,1"),
     ("v6e-8", "2,4,1"), ("v5p-8", "2,2,1")],
)  # fmt: skip
def test_the_topology_of_one_host_is_the_one_that_torch_tpu_finds(type, topology):
    assert launch(type, 0)["TORCH_TPU_TOPOLOGY"] == topology


def test_one_host_of_a_pod_works_alone_and_some_of_its_hosts_are_not_guessed():
    alone = launch("v5litepod-16", 3, [3])
    assert (alone["NNODES"], alone["MASTER_ADDR"]) == ("1", "10.0.0.3")
    assert alone["TORCH_TPU_TOPOLOGY"] == "2,2,1"
    assert launch("v5litepod-16", 0, [0, 1]) == {}


def test_tcmalloc_is_preloaded_where_torch_tpu_is_and_nowhere_else(tmp_path, monkeypatch):
    library = tmp_path / "libtcmalloc_minimal.so.4"
    library.touch()
    monkeypatch.setattr(process_env, "_TCMALLOC", (str(tmp_path / "missing.so"), str(library)))
    python = tmp_path / "env/bin/python"
    base = {"LD_PRELOAD": f"{library}:/opt/loopback.so"}

    def preload() -> str:
        environment = process_env.process_environment(str(python), base=base)
        return environment.get("LD_PRELOAD", "")

    site = Path(tmp_path, "env/lib/python3.12/site-packages")
    site.mkdir(parents=True)
    assert preload() == "/opt/loopback.so"
    (site / "torch_tpu").mkdir()
    assert preload() == f"/opt/loopback.so {library}"
