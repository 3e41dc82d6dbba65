"""The real gcloud makes, shows and deletes TPUs in Compute Engine, as far as its version can."""

import shutil
import warnings

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


FLEX = ("--max-run-duration=4h", "--instance-termination-action=DELETE")
WORKLOAD = ("resource-policies", "create", "workload-policy")
#: What Google's documentation has and an older gcloud lacks: a flag, and a command with it.
NEWER = {
    "--provisioning-model=FLEX_START": ("instances", "create", "flex", *MACHINE, *FLEX),
    "--request-valid-for-duration=2h": (
        *("instances", "create", "waits", *MACHINE, *FLEX, "--provisioning-model=FLEX_START"),
    ),
    "--accelerator-topology-mode=AUTO_CONNECT": (
        *(*WORKLOAD, "connects", "--type=HIGH_THROUGHPUT", "--accelerator-topology=2x4"),
    ),
}

pytestmark = pytest.mark.skipif(
    shutil.which("gcloud") is None,
    reason="SKIPPED FOR WANT OF gcloud: install the Google Cloud CLI to check conformance",
)


@pytest.mark.long
@pytest.mark.parametrize("flag", NEWER)
def test_a_flag_that_this_gcloud_lacks_is_named(emulator, tmp_path, flag):
    """In the released commands, then in alpha; a warning where neither has it."""
    gcloud = Gcloud(emulator, tmp_path, ZONE)
    command = NEWER[flag]
    place = f"--region={REGION}" if command[: len(WORKLOAD)] == WORKLOAD else f"--zone={ZONE}"
    for track in ([], ["alpha"]):
        done = gcloud.run("compute", *command, place, flag, track=track, fails=None)
        if done.returncode == 0:
            return
        # Whatever else fails is the emulator's fault, and not gcloud's.
        assert "unrecognized arguments" in done.stderr or "Invalid choice" in done.stderr
    version = gcloud.run("version", "--format=value('Google Cloud SDK')").stdout.strip()
    warnings.warn(f"NOT TRIED: gcloud {version} has no {flag}", stacklevel=1)


@pytest.mark.long
def test_gcloud_makes_an_instance_and_a_slice(emulator, tmp_path):
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
    said = compute("ssh", "ann@gone", zone, "--command=hostname; ls /dev/vfio")
    assert said.split()[-6:] == ["gone", "0", "1", "2", "3", "vfio"]
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
    described = compute(*groups, "describe", "gpod", zone, "--format=value(status.isStable)")
    assert described.strip() == "True"
    assert compute(*groups, "list-errors", "gpod", zone, "--format=value(error.code)") == ""
    compute("resource-policies", "delete", "gwp", region, fails=True)  # it is in use
    compute(*groups, "delete", "gpod", zone)
    compute("instance-templates", "delete", "gtm", region)
    compute("resource-policies", "delete", "gwp", region)
