"""The real gcloud makes, shows and deletes TPUs in Compute Engine, as far as its version can."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from gcloud_cli import Gcloud

ZONE, REGION = "us-east5-a", "us-east5"
MACHINE = (
    "--machine-type=ct6e-standard-4t",
    "--image-family=ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e",
    "--image-project=ubuntu-os-accelerator-images",
    "--boot-disk-size=200GB",
    "--maintenance-policy=TERMINATE",
)


@pytest.mark.long
def test_gcloud_makes_an_instance_and_a_slice(emulator: Any, tmp_path: Path) -> None:
    if shutil.which("gcloud") is None:
        pytest.skip("SKIPPED FOR WANT OF gcloud: install it to run this test")
    gcloud = Gcloud(emulator, tmp_path, ZONE)
    zone, region = f"--zone={ZONE}", f"--region={REGION}"

    def compute(*arguments: str, alpha: bool = False, fails: bool = False) -> str:
        track = ["alpha"] if alpha else []
        return gcloud.run("compute", *arguments, track=track, fails=fails).stdout

    compute("instances", "create", "gone", zone, *MACHINE, "--provisioning-model=SPOT")
    assert "gone" in compute("instances", "list", "--format=value(name)").split()
    status = compute("instances", "describe", "gone", zone, "--format=value(status)")
    assert status.strip() == "RUNNING"
    compute("instances", "add-labels", "gone", zone, "--labels=a=b")
    compute("instances", "delete", "gone", zone)

    policy = ("--type=HIGH_THROUGHPUT", "--accelerator-topology=2x4")
    compute("resource-policies", "create", "workload-policy", "gwp", region, *policy)
    compute("instance-templates", "create", "gtm", f"--instance-template-region={REGION}", *MACHINE)
    where, groups = f"projects/emulated/regions/{REGION}", ("instance-groups", "managed")
    compute(
        *(*groups, "create", "gpod", zone, "--size=2"),
        f"--template={where}/instanceTemplates/gtm",
        f"--workload-policy={where}/resourcePolicies/gwp",
        *("--target-size-policy-mode=bulk", "--default-action-on-vm-failure=do-nothing"),
        alpha=True,
    )
    compute(*groups, "wait-until", "gpod", zone, "--stable")
    shown = compute(*groups, "list-instances", "gpod", zone, "--format=value(instanceStatus)")
    assert shown.split() == ["RUNNING", "RUNNING"]
    compute("resource-policies", "delete", "gwp", region, fails=True)  # it is in use
    compute(*groups, "delete", "gpod", zone)
    compute("instance-templates", "delete", "gtm", region)
    compute("resource-policies", "delete", "gwp", region)
