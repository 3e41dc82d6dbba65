"""An environment with PyTorch beside one with JAX, on a pod: what can be tried without chips."""

from collections.abc import Iterator
from typing import Any

import pytest
from adoption_server import Server
from running_kernel import running_kernel
from waiting import until

NAME = "torches"
#: Seconds: PyTorch, TorchTPU and libtpu have 2 GB, and take long to import.
LONGEST = 1200.0
#: Rank 0 prints the sum of all ranks, which each process has added to.
ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
ranks = torch.tensor([dist.get_rank()])
dist.all_reduce(ranks)
if dist.get_rank() == 0:
    print("sum", ranks.item(), "of", dist.get_world_size(), os.environ["TORCH_TPU_TOPOLOGY"])
dist.barrier()  # without it gloo aborts a process whose neighbor has ended
dist.destroy_process_group()
"""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose user has a TPU of two hosts with JAX, and with PyTorch beside it."""
    server = Server(tmp_path_factory.mktemp("torch"), emulator.environment)
    with server.tpu_of_two_hosts(NAME):
        yield server


@pytest.fixture(scope="module")
def made(server: Server) -> Any:
    """The operation that created the environment with PyTorch."""
    # More machines have a PyTorch without CUDA for this Python than for newer ones.
    body = {"environment": "torch", "framework": "torch", "python": "3.11"}
    operation = server.tpu("POST", f"tpus/{NAME}/connect", body)

    def ended() -> bool:
        nonlocal operation
        operation = server.tpu("GET", f"operations/{operation['id']}")
        return bool(operation["state"] != "running")

    until(ended, LONGEST, lambda: str(operation))
    if operation["state"] == "failed" and "no PyTorch without CUDA" in str(operation["error"]):
        pytest.skip(operation["error"]["message"])
    assert operation["state"] == "done", operation
    return operation


def test_it_is_checked_as_far_as_that_goes_without_chips_and_said_so(server, made):
    log = "\n".join(made["log"])
    assert "TorchTPU can't be checked without TPU chips" in log
    environment = next(
        one for one in server.tpu("GET", f"tpus/{NAME}/environments") if one["name"] == "torch"
    )
    assert environment["framework"] == "torch"
    assert environment["torch"].startswith("2.")
    assert environment["display_name"] == f"PyTorch · {NAME} · torch (emulated)"
    assert environment["pod_kernelspec"] == ""
    assert not [name for name in names(server) if name.startswith(("nvidia", "jax"))]
    found = server.cli("doctor", NAME).stdout
    assert "torch: PyTorch 2." in found
    assert "default: JAX" in found


def names(server: Server) -> list[str]:
    packages = server.tpu("GET", f"tpus/{NAME}/environments/torch/packages")
    return [package["name"] for package in packages]


def test_its_kernel_has_torch_and_the_other_one_has_jax(server, made):
    one, two = server.tpu("GET", f"tpus/{NAME}/environments")
    specs = {one["name"]: one["kernelspec"], two["name"]: two["kernelspec"]}
    with running_kernel(server.environment, specs["torch"]) as run:
        assert "3.0 False" in run(
            "import torch; print(torch.ones(3).sum().item(), torch.accelerator.is_available())"
        )
    with running_kernel(server.environment, specs["default"]) as run:
        assert "4" in run("import jax; print(jax.local_device_count())")


def test_another_framework_for_the_same_name_is_refused(server, made):
    refused = server.cli("connect", NAME, "--framework", "torch")
    assert refused.returncode == 1
    assert "The environment default has JAX." in refused.stderr


def test_its_lock_names_torch_tpu_and_makes_the_same_framework(server, made, tmp_path):
    file = tmp_path / "lock.txt"
    assert server.cli("env", "lock", NAME, "torch", "--output", str(file)).returncode == 0
    assert "\ntorch-tpu==" in file.read_text()


def test_torchrun_starts_one_process_for_each_device_of_all_hosts(server, made):
    script = f"cat >ranks.py <<'END'\n{ALL_REDUCE}\nEND\nexec torchrun ranks.py"
    # TorchTPU, which can't be used here, takes long to load in each of them.
    body = {
        "command": ["sh", "-c", script],
        "environment": "torch",
        "variables": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    }
    job = server.tpu("POST", f"tpus/{NAME}/jobs", body)

    def now() -> Any:
        return server.tpu("GET", f"tpus/{NAME}/jobs/{job['id']}")

    def log() -> str:
        return server.cli("job", "logs", NAME, job["id"]).stdout

    until(lambda: now()["state"] not in ("starting", "running"), 300, log)
    assert "sum 28 of 8 2,2,2" in log()
    assert [host["exit_code"] for host in now()["attempts"][-1]["hosts"]] == [0, 0]
