"""TPUs of both of Google's control planes in one list, with the same words, on the emulator."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell
from running_kernel import running_kernel

LIMIT = 400.0  # seconds; the first environment downloads JAX
COMPUTE = ("instances", "instanceGroupManagers", "instanceTemplates", "resourcePolicies")


@pytest.fixture
def shell(emulator: Any, faults: Any, tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, **emulator.environment)
    yield shell
    emulator.request("DELETE", "/emulator/v1/faults")
    for tpu in shell.json("list", "--json")["tpus"]:
        if tpu["api"] == "compute":
            shell.run("delete", f"{tpu['zone']}~{tpu['name']}", "--yes")


def new_name() -> str:
    return f"tpu-{uuid.uuid4().hex[:8]}"


def at_compute_engine(emulator: Any) -> list[str]:
    """All that there is, by its name."""
    names = []
    for kind in COMPUTE:
        page = emulator.request("GET", f"/compute/v1/projects/emulated/aggregated/{kind}")
        names += [item["name"] for scope in page["items"].values() for item in scope.get(kind, ())]
    return sorted(names)


@pytest.mark.parametrize("connect", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_tpu7x_is_a_tpu_like_others_from_its_creation_to_its_end(shell, emulator, connect):
    name = new_name()
    options = ["--connect"] if connect else []
    said = shell.out(
        *("create", name, "--type", "tpu7x-8", "--zone", "us-central1-c", *options), limit=LIMIT
    )
    assert "tpu7x-8 = 4 chips · 1 host · 768 GB HBM (emulated), in us-central1-c" in said
    assert "Compute Engine" not in said
    with emulator.tpu("old", zone="us-west4-a") as node:
        old = node["name"].rpartition("/")[2]
        listed = {tpu["name"]: tpu for tpu in shell.json("list", "--json")["tpus"]}
        assert (listed[name]["api"], listed[old]["api"]) == ("compute", "tpu")
        assert listed[name]["connection"] == ("connected" if connect else "disconnected")
        used = {tpu["name"] for tpu in shell.json("usage", "--json")["tpus"]}
        assert {name, old} <= used
    assert "Compute Engine" in shell.out("describe", name)
    assert "Compute Engine" not in shell.out("list")
    assert shell.out("ssh", name, "--", "hostname").strip() == name
    assert name in shell.out("run", name, "--", "hostname")
    job = shell.json("job", "start", name, "--json", "--", "sh", "-c", "echo on $TPU_NAME")
    assert f"on {name}" in shell.out("job", "logs", name, job["id"], "--follow")
    if connect:
        (spec,) = json.loads(shell.out("kernel", "list", "--json"))
        with running_kernel(shell.environment, spec["name"]) as run:
            assert run("import jax, os; print(jax.device_count(), os.uname().nodename)") == (
                f"8 {name}\n"
            )
        checked = shell.run("doctor", name).stdout
        assert "The runtime version fits: ubuntu-accel-2404-amd64-tpu-tpu7x on tpu7x-8." in checked
    shell.out("delete", name, "--yes")
    assert at_compute_engine(emulator) == []
    assert shell.json("list", "--json")["tpus"] == []


def test_host_0_of_a_slice_is_googles_worker_0(shell, emulator):
    name = new_name()
    place = "--zone", "us-central1-ai1a", "--spot"
    said = shell.out("create", name, "--type", "tpu7x-2x2x2", *place, limit=LIMIT)
    assert "tpu7x-16 = 8 chips · 2 hosts · 1536 GB HBM" in said
    ask = 'echo "$TPU_WORKER_ID $(hostname)"'
    said = shell.run("run", name, "--worker", "all", "--", "sh", "-c", ask).stdout
    # The emulator numbers them in the reverse order of their names.
    assert f"[0] 0 {name}-w-002" in said
    assert f"[1] 1 {name}-w-001" in said
    assert shell.out("ssh", name, "--worker", "1", "--", "hostname").strip() == f"{name}-w-001"
    # Google numbers them anew: the next check notices it.
    file = Path(shell.environment["JUPYTER_TPU_DATA_DIR"]) / "host_numbers.json"
    before = json.loads(file.read_text())
    file.write_text(json.dumps({id: 1 - number for id, number in before.items()}))
    assert "host 0 is Google's worker 1, host 1 is Google's worker 0" in (
        shell.run("doctor", name).stdout
    )
    assert json.loads(file.read_text()) == before
    shell.out("delete", name, "--yes")
    assert at_compute_engine(emulator) == []


def test_what_is_ambiguous_is_said_before_it_is_created(shell, faults):
    """A type of as many chips in two forms, and a type that both control planes offer."""
    faults(kind="quota", zone="us-east5-a", type="v6e-8", chips=0)  # the Cloud TPU API's
    faults(kind="quota", zone="us-east5-a", type="ct6e", chips=4)  # Compute Engine's
    said = shell.run("create", new_name(), "--type", "v6e-8", "--zone", "us-east5-a")
    assert "v6e-8 is 1 VM of 8 chips. For 2 VMs of 4 chips, choose v6e-2x4." in said.stdout
    assert "Compute Engine makes it: the Cloud TPU API's quota for v6e" in said.stdout
    assert "Quota 'TPUS_PER_TPU_FAMILY' exceeded" in said.stderr
    checked = shell.run("doctor", "--type", "v6e-8", "--zone", "us-east5-a").stdout
    assert "for v6e (on-demand) in us-east5-a is 0." in checked
    assert "Compute Engine's quota TPUS-PER-TPU-FAMILY-per-project-region for v6e" in checked
    complaint = shell.complaint(
        *("create", new_name(), "--type", "v5litepod-8", "--zone", "us-east5-a"),
        *("--api", "compute"),
    )
    assert "Compute Engine does not offer v5litepod-8 in us-east5-a." in complaint


def test_a_hunt_looks_at_both_control_planes(shell, emulator, faults):
    name = new_name()
    faults(kind="no-capacity", zone="us-east5-a", type="v6e-4", chips=0)  # the Cloud TPU API's
    shell.out("hunt", "start", name, "--type", "v6e-4", "--zone", "us-east5-a")
    said = shell.json("hunt", "describe", name, "--json")
    assert [candidate["api"] for candidate in said["candidates"]] == ["tpu", "compute"]
    assert [(attempt["api"], attempt["state"]) for attempt in said["attempts"]] == [
        ("tpu", "failed"),
        ("compute", "found"),
    ]
    assert at_compute_engine(emulator) == [name]
