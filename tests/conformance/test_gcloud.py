"""The real gcloud against the emulator: GA and alpha, all that it does with TPUs.

A call of gcloud takes one to two seconds of processor time, so only the first story is short.
"""

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gcloud_cli import Gcloud
from waiting import until

ZONE = "us-central1-a"
V4_ZONE = "us-central2-b"
V5E = ("--accelerator-type=v5litepod-4", "--version=v2-alpha-tpuv5-lite")
V5E_POD = ("--accelerator-type=v5litepod-16", "--version=v2-alpha-tpuv5-lite")
V5E_QUEUED = ("--accelerator-type=v5litepod-4", "--runtime-version=v2-alpha-tpuv5-lite")

pytestmark = pytest.mark.skipif(
    shutil.which("gcloud") is None,
    reason="SKIPPED FOR WANT OF gcloud: install the Google Cloud CLI to check conformance",
)


@pytest.fixture
def gcloud(emulator: Any, tmp_path: Path) -> Gcloud:
    return Gcloud(emulator, tmp_path, ZONE)


def hosts_in(said: str) -> set[str]:
    return {word for word in said.split() if word.startswith("t1v-n-")}


def host_key(emulator: Any, name: str) -> str:
    answer = emulator.request(
        "POST", f"/v2/{name}:getGuestAttributes", {"queryPath": "hostkeys/ssh-ed25519"}
    )
    value: str = answer["guestAttributes"][0]["queryValue"]["items"][0]["value"]
    return value


def test_gcloud_creates_a_tpu_runs_a_command_on_it_and_deletes_it(
    emulator, gcloud, isolated_folders
):
    real_keys = Path.home() / ".ssh"
    keys_before = sorted(real_keys.glob("*"))
    gcloud.tpus("tpu-vm", "create", "by-gcloud", *V5E)
    said = gcloud.tpus("tpu-vm", "ssh", "ann@by-gcloud", "--command=hostname; echo $TPU_NAME")
    (host,) = emulator.hosts("by-gcloud")
    assert said.stdout.split()[-2:] == [host["hostname"], "by-gcloud"], said.stderr
    # As OpenSSH writes the alias that gcloud has made of the host key.
    suffix = f"-0-{host_key(emulator, host['node'])[-6:].lower()}"
    assert suffix in (gcloud.home / ".ssh" / "google_compute_known_hosts").read_text()
    assert sorted(real_keys.glob("*")) == keys_before
    gcloud.tpus("tpu-vm", "delete", "by-gcloud")
    assert not emulator.hosts("by-gcloud")


@pytest.mark.long
def test_gcloud_runs_a_tpus_whole_life(emulator, tmp_path):
    gcloud = Gcloud(emulator, tmp_path, V4_ZONE)
    image = "--version=tpu-ubuntu2204-base"
    gcloud.tpus("tpu-vm", "create", "life", "--type=v4", "--topology=2x2x1", image)
    node = gcloud.json("tpu-vm", "describe", "life")
    assert (node["state"], node["acceleratorType"]) == ("READY", "v4-8")
    taken = gcloud.tpus("tpu-vm", "create", "life", "--accelerator-type=v4-8", image, fails=True)
    assert "ALREADY_EXISTS" in taken.stderr

    file = tmp_path / "file.txt"
    file.write_text("there and back")
    gcloud.tpus("tpu-vm", "scp", str(file), "ann@life:")
    gcloud.tpus("tpu-vm", "scp", "ann@life:file.txt", str(tmp_path / "back.txt"))
    assert (tmp_path / "back.txt").read_text() == "there and back"

    gcloud.tpus(
        *("tpu-vm", "update", "life", "--description=mine", "--update-labels=team=x"),
        *("--add-tags=web", f"--metadata-from-file=startup-script={file}"),
    )
    node = gcloud.json("tpu-vm", "describe", "life")
    assert (node["description"], node["labels"], node["tags"]) == ("mine", {"team": "x"}, ["web"])
    assert node["metadata"]["startup-script"] == "there and back"

    assert gcloud.json("tpu-vm", "stop", "life")["response"]["state"] == "STOPPED"
    refused = gcloud.tpus("tpu-vm", "ssh", "ann@life", "--command=true", fails=True)
    assert 'This TPU has state "STOPPED"' in refused.stderr
    gcloud.tpus("tpu-vm", "start", "life")
    listed = {node["name"]: node["state"] for node in gcloud.json("tpu-vm", "list")}
    assert listed[node["name"]] == "READY"
    attributes = gcloud.json("tpu-vm", "get-guest-attributes", "life")
    assert {item["key"] for item in attributes} >= {"ssh-ed25519", "hostname"}

    gcloud.tpus("tpu-vm", "delete", "life")
    assert "NOT_FOUND" in gcloud.tpus("tpu-vm", "describe", "life", fails=True).stderr


@pytest.mark.long
def test_gcloud_alpha_reaches_every_worker_of_a_pod_and_simulates_maintenance(
    emulator, gcloud, tmp_path
):
    gcloud.tpus("tpu-vm", "create", "pod", *V5E_POD, "--spot", alpha=True)
    ssh = ("tpu-vm", "ssh", "ann@pod", "--worker=all", "--command=hostname")
    names = {host["hostname"] for host in emulator.hosts("pod")}
    assert len(names) == 4
    assert hosts_in(gcloud.tpus(*ssh, alpha=True).stdout) == names
    (tmp_path / "all.txt").write_text("everywhere")
    gcloud.tpus("tpu-vm", "scp", str(tmp_path / "all.txt"), "ann@pod:", "--worker=all", alpha=True)
    done = gcloud.tpus(*ssh[:-1], "--command=cat all.txt", alpha=True)
    assert done.stdout.count("everywhere") == 4

    before = {host["external"] for host in emulator.hosts("pod")}
    gcloud.tpus("tpu-vm", "simulate-maintenance-event", "pod", "--workers=0", alpha=True)
    assert not before & {host["external"] for host in emulator.hosts("pod")}
    fault = {"kind": "announce-maintenance", "node": "pod"}
    emulator.request("POST", "/emulator/v1/faults", fault)
    coming = gcloud.json("tpu-vm", "describe", "pod", alpha=True)["upcomingMaintenance"]
    assert (coming["type"], coming["maintenanceStatus"]) == ("SCHEDULED", "PENDING")
    gcloud.tpus("tpu-vm", "perform-maintenance", "pod", alpha=True)
    assert "upcomingMaintenance" not in gcloud.json("tpu-vm", "describe", "pod")
    assert gcloud.json("reservations", "list", alpha=True) == []
    gcloud.tpus("tpu-vm", "delete", "pod", alpha=True)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [False, True], ids=["GA", "alpha"])
def test_gcloud_runs_a_queued_resources_whole_life(emulator, gcloud, alpha, tmp_path):
    # Two threads of gcloud would make it at the same time.
    key = gcloud.home / ".ssh" / "google_compute_engine"
    key.parent.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", key], check=True)
    options = ("--spot", "--valid-until-duration=6h", "--node-count=2", "--node-prefix=slice")
    gcloud.tpus("queued-resources", "create", "queue", *options, *V5E_QUEUED, alpha=alpha)

    def state() -> str:
        name = f"projects/emulated/locations/{ZONE}/queuedResources/queue"
        word: str = emulator.request("GET", f"/v2/{name}")["state"]["state"]
        return word

    until(lambda: state() == "ACTIVE")
    described = gcloud.json("queued-resources", "describe", "queue", alpha=alpha)
    assert described["queueingPolicy"] == {"validUntilDuration": "21600s"}
    assert [spec["nodeId"] for spec in described["tpu"]["nodeSpec"]] == ["slice-0", "slice-1"]
    listed = gcloud.tpus("queued-resources", "list", alpha=alpha).stdout
    assert listed.splitlines()[1].split() == ["queue", ZONE, "2", "v5litepod-4", "ACTIVE"]

    ssh = ("queued-resources", "ssh", "ann@queue", "--node=all", "--worker=all")
    output = gcloud.tpus(*ssh, "--command=hostname", alpha=True).stdout
    names = {host["hostname"] for number in (0, 1) for host in emulator.hosts(f"slice-{number}")}
    assert hosts_in(output) == names
    (tmp_path / "file.txt").write_text("in all slices")
    scp = ("queued-resources", "scp", str(tmp_path / "file.txt"), "ann@queue:", "--node=all")
    gcloud.tpus(*scp, "--worker=all", alpha=True)
    output = gcloud.tpus(*ssh, "--command=cat file.txt", alpha=True).stdout
    assert output.count("in all slices") == 2

    emulator.request("POST", "/emulator/v1/faults", {"kind": "preempt", "node": "slice-1"})
    until(lambda: state() == "SUSPENDED")
    gcloud.tpus("queued-resources", "reset", "queue", alpha=alpha)
    until(lambda: state() == "ACTIVE")
    refused = gcloud.tpus("queued-resources", "delete", "queue", alpha=alpha, fails=True)
    assert "FAILED_PRECONDITION" in refused.stderr
    gcloud.tpus("queued-resources", "delete", "queue", "--force", alpha=alpha)
    gone = gcloud.tpus("queued-resources", "describe", "queue", alpha=alpha, fails=True)
    assert "NOT_FOUND" in gone.stderr
    assert not emulator.hosts("slice-0")


@pytest.mark.long
def test_gcloud_alpha_asks_for_a_flex_start_with_a_limit(emulator, gcloud):
    model = ("--provisioning-model=flex-start", "--max-run-duration=1h", "--node-id=flex")
    gcloud.tpus("queued-resources", "create", "later", *model, *V5E_QUEUED, alpha=True)
    queued = gcloud.json("queued-resources", "describe", "later", alpha=True)
    assert queued["provisioningModel"] == "FLEX_START"
    assert queued["runDuration"] == {"maxRunDuration": "3600s"}
    gcloud.tpus("queued-resources", "delete", "later", "--force", alpha=True)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [False, True], ids=["GA", "alpha"])
def test_gcloud_lists_what_is_offered(gcloud, alpha):
    def names(*arguments: str) -> set[str]:
        items = gcloud.json(*arguments, alpha=alpha)
        return {item["name"].rpartition("/")[2] for item in items}

    types = ("tpu-vm", "accelerator-types")
    assert "v5litepod-8" in names(*types, "list")
    kind = gcloud.json(*types, "describe", "v5litepod-8", alpha=alpha)
    assert kind["acceleratorConfigs"] == [{"topology": "2x4", "type": "V5LITE_POD"}]
    assert "v2-alpha-tpuv5-lite" in names("tpu-vm", "versions", "list")
    version = gcloud.json("tpu-vm", "versions", "describe", "tpu-ubuntu2204-base", alpha=alpha)
    assert version["version"] == "tpu-ubuntu2204-base"
    track = ["alpha"] if alpha else []
    listed = gcloud.run("compute", "tpus", "locations", "list", track=track).stdout
    assert ZONE in listed.split()
    gcloud.run("compute", "tpus", "locations", "describe", ZONE, track=track)
    identity = gcloud.tpus("tpu-vm", "service-identity", "create", alpha=alpha)
    assert "cloud-tpu.iam.gserviceaccount.com" in identity.stdout + identity.stderr


@pytest.mark.long
def test_gcloud_makes_networks_and_firewall_rules_and_a_tpu_on_them(gcloud):
    gcloud.compute("networks", "create", "mine", "--subnet-mode=custom")
    subnet = ("networks", "subnets")
    where = "--region=us-central1"
    gcloud.compute(*subnet, "create", "sub", "--network=mine", "--range=10.0.0.0/24", where)
    rule = ("--network=mine", "--allow=tcp:22", "--source-ranges=192.0.2.1/32")
    gcloud.compute("firewall-rules", "create", "mine-ssh", *rule)
    gcloud.compute("firewall-rules", "create", "mine-too", *rule)
    described = gcloud.compute("firewall-rules", "describe", "mine-ssh")
    assert described["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]
    assert described["sourceRanges"] == ["192.0.2.1/32"]
    gcloud.compute("firewall-rules", "update", "mine-ssh", "--source-ranges=192.0.2.2/32")
    rules = {rule["name"]: rule for rule in gcloud.compute("firewall-rules", "list")}
    assert rules["mine-ssh"]["sourceRanges"] == ["192.0.2.2/32"]
    assert "default-allow-ssh" in rules
    assert {network["name"] for network in gcloud.compute("networks", "list")} >= {
        "default",
        "mine",
    }
    listed = gcloud.compute(*subnet, "list", "--network=mine")
    assert [subnetwork["ipCidrRange"] for subnetwork in listed] == ["10.0.0.0/24"]
    assert gcloud.compute("networks", "describe", "mine")["subnetworks"][0].endswith("/sub")
    assert gcloud.compute(*subnet, "describe", "sub", where)["name"] == "sub"

    missing = gcloud.tpus("tpu-vm", "create", "n", *V5E, "--network=nowhere", fails=True)
    assert "networks/nowhere' was not found" in missing.stderr
    gcloud.tpus("tpu-vm", "create", "n", *V5E, "--network=mine", "--subnetwork=sub")
    network = gcloud.json("tpu-vm", "describe", "n")["networkConfig"]
    assert network["network"] == "projects/emulated/global/networks/mine"
    used = gcloud.run("compute", *subnet, "delete", "sub", where, fails=True)
    assert "is already being used by" in used.stderr
    gcloud.tpus("tpu-vm", "delete", "n")
    deleted = gcloud.run("compute", "firewall-rules", "delete", "mine-ssh", "mine-too")
    assert deleted.stderr.count("Deleted [") == 2
    gcloud.compute(*subnet, "delete", "sub", where)
    gcloud.compute("networks", "delete", "mine")


@pytest.mark.long
def test_gcloud_reaches_a_tpu_without_external_address_through_iap(emulator, gcloud, tmp_path):
    iap = emulator.request("POST", "/emulator/v1/iap", {})
    gcloud.environment["CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"] = iap["certificate"]
    gcloud.tpus("tpu-vm", "create", "inside", *V5E, "--internal-ips")
    (host,) = emulator.hosts("inside")
    assert not host["external"]
    # Not `cat`: gcloud 528 can block for ever while much goes both ways, since its sending thread
    # puts acknowledgements into its own full queue.
    ssh = ("tpu-vm", "ssh", "ann@inside", "--tunnel-through-iap", "--command=tac")
    gcloud.tpus("tpu-vm", "ssh", "ann@inside", "--command=true", "--internal-ip", alpha=True)
    # The command that gcloud would run, but with the hidden flag that points it at the emulator.
    lines = gcloud.tpus(*ssh, "--dry-run", alpha=True).stdout.splitlines()
    (shown,) = [line for line in lines if "ProxyCommand" in line]
    command, _, tunnel = shown.partition("-o ProxyCommand ")
    proxy, _, rest = tunnel.partition(" -o ProxyUseFdpass")
    option = f"ProxyCommand={proxy} --iap-tunnel-url-override={iap['url']}"
    after = shlex.split(f"-o ProxyUseFdpass{rest}")
    sent = b"through the tunnel\n" * 20_000
    done = subprocess.run(
        [*shlex.split(command), "-o", option, *after],
        env=gcloud.environment,
        input=sent,
        capture_output=True,
        timeout=120,
    )
    print("$", shown, f"→ {done.returncode}\n{done.stderr.decode()}")
    assert done.stdout == sent
    gcloud.tpus("tpu-vm", "delete", "inside")


@pytest.mark.long
def test_gcloud_adds_to_the_projects_metadata(gcloud):
    def items() -> dict[str, str]:
        metadata = gcloud.compute("project-info", "describe")["commonInstanceMetadata"]
        return {item["key"]: item["value"] for item in metadata.get("items", [])}

    for pair in ("first=1", "second=2"):
        gcloud.compute("project-info", "add-metadata", f"--metadata={pair}")
    assert {"first": "1", "second": "2"}.items() <= items().items()
    gcloud.compute("project-info", "remove-metadata", "--keys=first,second")
    assert not {"first", "second"} & items().keys()


@pytest.mark.long
def test_gcloud_sends_no_key_that_the_project_or_the_tpu_has(gcloud):
    gcloud.tpus("tpu-vm", "create", "keys", *V5E)
    sent = "Propagating SSH public key"
    ssh = ("tpu-vm", "ssh", "ann@keys", "--command=true")
    assert sent in gcloud.tpus(*ssh).stderr
    assert sent not in gcloud.tpus(*ssh).stderr
    gcloud.tpus("tpu-vm", "delete", "keys")

    key = (gcloud.home / ".ssh" / "google_compute_engine.pub").read_text().split()
    # gcloud compares this text with that of the project, the comment too.
    (gcloud.home / "keys").write_text(f"ann:{key[0]} {key[1]} ann")
    keys = f"--metadata-from-file=ssh-keys={gcloud.home / 'keys'}"
    gcloud.compute("project-info", "add-metadata", keys)
    gcloud.tpus("tpu-vm", "create", "keys", *V5E)
    said = gcloud.tpus(*ssh).stderr
    assert "SSH key found in project metadata; not updating instance." in said
    assert sent not in said
    gcloud.tpus("tpu-vm", "delete", "keys")
    gcloud.compute("project-info", "remove-metadata", "--keys=ssh-keys")


@pytest.mark.long
def test_gcloud_logs_in_with_os_login_where_the_project_has_it(emulator, gcloud):
    gcloud.environment["CLOUDSDK_CORE_ACCOUNT"] = "ann@example.com"
    gcloud.tpus("tpu-vm", "create", "login", *V5E, "--metadata=enable-oslogin=TRUE")
    said = gcloud.tpus("tpu-vm", "ssh", "login", "--command=whoami")
    assert said.stdout.split()[-1] == "ann_example_com"
    gcloud.tpus("tpu-vm", "delete", "login")


@pytest.mark.long
def test_gcloud_shows_and_enables_the_projects_services(emulator, gcloud, faults):
    assert "emulated" in gcloud.run("projects", "describe", "emulated").stdout
    faults(kind="api-disabled")
    refused = gcloud.tpus("tpu-vm", "list", fails=True)
    assert "Cloud TPU API has not been used in project" in refused.stderr
    enabled = gcloud.run("services", "list", "--enabled").stdout
    assert "compute.googleapis.com" in enabled
    assert "tpu.googleapis.com" not in enabled
    gcloud.run("services", "enable", "tpu.googleapis.com")
    gcloud.tpus("tpu-vm", "list")


@pytest.mark.long
def test_gcloud_shows_the_services_words_for_no_capacity(gcloud, faults):
    faults(kind="no-capacity", zone=ZONE, count=1)
    done = gcloud.tpus("tpu-vm", "create", "none", *V5E, fails=True)
    assert '"code": 8' in done.stderr
    assert "There is no more capacity in the zone" in done.stderr
