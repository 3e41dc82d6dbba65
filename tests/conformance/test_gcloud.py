"""The real gcloud against the emulator, pointed at it by nothing but the ``--env`` lines."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.emulator import environment_lines

ZONE = "us-central2-b"

pytestmark = pytest.mark.skipif(
    shutil.which("gcloud") is None,
    reason="SKIPPED FOR WANT OF gcloud: install the Google Cloud CLI to check conformance",
)


class Gcloud:
    """gcloud with a home and a configuration of its own."""

    def __init__(self, emulator: Any, folder: Path) -> None:
        said = dict(
            shlex.split(line)[1].split("=", 1) for line in environment_lines(emulator.state)
        )
        self.home = folder / "home"
        self.home.mkdir()
        self.environment = {
            **os.environ,
            **said,
            "HOME": str(self.home),
            "CLOUDSDK_CONFIG": str(folder / "gcloud"),
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        }

    def run(self, *arguments: str, alpha: bool = False) -> subprocess.CompletedProcess[str]:
        track = ["alpha"] if alpha else []
        return self.compute("tpus", *arguments, f"--zone={ZONE}", track=track)

    def compute(
        self, *arguments: str, track: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["gcloud", *track, "compute", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def __call__(self, *arguments: str, alpha: bool = False) -> Any:
        """What it says as JSON."""
        done = self.run(*arguments, "--format=json", alpha=alpha)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None


def test_gcloud_runs_a_tpus_whole_life(
    emulator: Any, tmp_path: Path, isolated_folders: Path
) -> None:
    gcloud = Gcloud(emulator, tmp_path)
    real_home = Path.home()
    keys_before = sorted((real_home / ".ssh").glob("*"))

    gcloud.run("tpu-vm", "create", "by-gcloud", "--type=v4", "--topology=2x2x1",
               "--version=tpu-ubuntu2204-base")  # fmt: skip
    node = gcloud("tpu-vm", "describe", "by-gcloud")
    assert (node["state"], node["acceleratorType"]) == ("READY", "v4-8")

    taken = gcloud.run("tpu-vm", "create", "by-gcloud", "--accelerator-type=v4-8",
                       "--version=tpu-ubuntu2204-base")  # fmt: skip
    assert taken.returncode == 1
    assert "ALREADY_EXISTS" in taken.stderr

    said = gcloud.run("tpu-vm", "ssh", "ann@by-gcloud", "--command=hostname; echo $TPU_NAME")
    (host,) = emulator.hosts("by-gcloud")
    assert said.stdout.split()[-2:] == [host["hostname"], "by-gcloud"], said.stderr
    suffix = f"-0-{host_key(emulator, node['name'])[-6:].lower()}"  # as OpenSSH writes it
    assert suffix in (gcloud.home / ".ssh" / "google_compute_known_hosts").read_text()
    assert (gcloud.home / ".ssh" / "google_compute_engine").exists()
    assert sorted((real_home / ".ssh").glob("*")) == keys_before

    assert gcloud("tpu-vm", "stop", "by-gcloud")["response"]["state"] == "STOPPED"
    refused = gcloud.run("tpu-vm", "ssh", "ann@by-gcloud", "--command=true")
    assert 'This TPU has state "STOPPED"' in refused.stderr
    gcloud.run("tpu-vm", "start", "by-gcloud")
    (listed,) = [
        node for node in gcloud("tpu-vm", "list") if node["name"].endswith("/nodes/by-gcloud")
    ]
    assert listed["state"] == "READY"

    deleted = gcloud.run("tpu-vm", "delete", "by-gcloud", "--quiet")
    assert deleted.returncode == 0, deleted.stderr
    gone = gcloud.run("tpu-vm", "describe", "by-gcloud")
    assert "NOT_FOUND" in gone.stderr


def host_key(emulator: Any, name: str) -> str:
    found = emulator.request(
        "POST", f"/v2/{name}:getGuestAttributes", {"queryPath": "hostkeys/ssh-ed25519"}
    )
    return found["guestAttributes"][0]["queryValue"]["items"][0]["value"]


def test_gcloud_alpha_reaches_every_worker_of_a_pod(emulator: Any, tmp_path: Path) -> None:
    gcloud = Gcloud(emulator, tmp_path)
    created = gcloud.run("tpu-vm", "create", "alpha-pod", "--accelerator-type=v4-16",
                         "--version=tpu-ubuntu2204-base", alpha=True)  # fmt: skip
    assert created.returncode == 0, created.stderr
    said = gcloud.run("tpu-vm", "ssh", "ann@alpha-pod", "--worker=all", "--command=hostname",
                      alpha=True)  # fmt: skip
    names = {host["hostname"] for host in emulator.hosts("alpha-pod")}
    assert len(names) == 2
    assert {word for word in said.stdout.split() if word.startswith("t1v-n-")} == names, said.stderr
    deleted = gcloud.run("tpu-vm", "delete", "alpha-pod", "--quiet", alpha=True)
    assert deleted.returncode == 0, deleted.stderr


def test_gcloud_adds_to_the_projects_metadata(emulator: Any, tmp_path: Path) -> None:
    gcloud = Gcloud(emulator, tmp_path)

    def items() -> dict[str, str]:
        described = gcloud.compute("project-info", "describe", "--format=json")
        found = json.loads(described.stdout)["commonInstanceMetadata"].get("items", [])
        return {item["key"]: item["value"] for item in found}

    for pair in ("first=1", "second=2"):
        added = gcloud.compute("project-info", "add-metadata", f"--metadata={pair}")
        assert added.returncode == 0, added.stderr
    assert {"first": "1", "second": "2"}.items() <= items().items()
    removed = gcloud.compute("project-info", "remove-metadata", "--keys=first,second")
    assert removed.returncode == 0, removed.stderr
    assert not {"first", "second"} & items().keys()


def test_gcloud_shows_the_services_words_for_no_capacity(
    emulator: Any, tmp_path: Path, faults: Any
) -> None:
    faults(kind="no-capacity", zone=ZONE, count=1)
    done = Gcloud(emulator, tmp_path).run(
        "tpu-vm", "create", "none", "--accelerator-type=v4-8", "--version=tpu-ubuntu2204-base"
    )
    assert done.returncode == 1
    assert '"code": 8' in done.stderr
    assert "There is no more capacity in the zone" in done.stderr
