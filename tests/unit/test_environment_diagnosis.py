"""The findings about a TPU's hosts: which cause gives which finding, and what to do."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import convert, structs

from jupyter_tpu.commands.doctor import describe, numbered
from jupyter_tpu.environment.diagnosis import (
    COORDINATOR_PORTS,
    ClockOffset,
    ExaminedHost,
    ExpectedTPU,
    Finding,
    HostFacts,
    ServiceAccount,
    diagnose,
)
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import Diagnosis
from jupyter_tpu.on_host.environments.doctor import service_account

EXPECTED = ExpectedTPU(
    name="my-tpu", zone="z", network="lab", emulated=False, chips_per_host=4, devices_per_host=4
)
HARDWARE: dict[str, Any] = {
    "chips": ["v5e"] * 4,
    "device_files": [f"/dev/vfio/{number}" for number in range(4)],
}
CHECK: dict[str, Any] = {
    "python": "3.12.4",
    "jax": "0.10.2",
    "packages": {"jax": "0.10.2", "libtpu": "0.0.42"},
    "platform": "tpu",
    "devices": 4,
}
HOLDER = {"pid": 77, "user": "root", "command": "python3 train.py", "devices": ["/dev/vfio/0"]}
LOCK = {"owner": "root", "blocks_user": True}


def clock(least: float, most: float) -> ClockOffset:
    return ClockOffset(least=least, most=most)


def host(number: int = 0, **changes: Any) -> ExaminedHost:
    """A host without problems, but for *changes*: of its hardware, its check, or what is beside."""
    facts: dict[str, Any] = {
        "hardware": {**HARDWARE, **changes.pop("hardware", {})},
        "disks": [{"path": "/home/me", "free": 50 << 30, "total": 100 << 30}],
        "logs": changes.pop("logs", 0),
        "environments": {"default": {**CHECK, **changes.pop("check", {})}},
    }
    facts["disks"] = changes.pop("disks", facts["disks"])
    known = {
        "host": number,
        "facts": convert(facts, HostFacts),
        "clock": clock(-0.1, 0.04),
        **changes,
    }
    return ExaminedHost(**known)


def findings(*hosts: ExaminedHost, expected: ExpectedTPU = EXPECTED) -> list[Finding]:
    """Those that are not ok."""
    return [item for item in diagnose(hosts, expected) if item.state != "ok"]


def finding(*hosts: ExaminedHost) -> Finding:
    (only,) = findings(*hosts)
    return only


def test_a_tpu_without_problems_says_what_was_checked():
    findings = diagnose([host()], EXPECTED)
    assert {item.state for item in findings} == {"ok"}
    text = describe(
        Diagnosis(tpu="my-tpu", zone="z", emulated=False, healthy=True, findings=findings)
    )
    assert "ok       4 v5e chips with device files." in text
    assert "ok       default: JAX 0.10.2, libtpu 0.0.42, 4 tpu devices." in text
    assert "ok       The clock agrees with this computer's to 0.1 s." in text
    assert text.endswith("\nmy-tpu: no problem found.")


def test_a_host_that_cannot_be_reached_is_a_finding_and_the_others_are_checked():
    gone = TPUError("my-tpu-1 can't be reached.", Reason.UNREACHABLE, "Restart the TPU.")
    findings = diagnose([host(0), ExaminedHost(host=1, facts=gone)], EXPECTED)
    assert {item.host for item in findings} == {0, 1}
    (lost,) = [item for item in findings if item.host == 1]
    assert (lost.check, lost.state) == ("connection", "problem")
    assert "my-tpu-1 can't be reached" in lost.message
    assert lost.hint.startswith("Other hosts of the TPU answer, so its firewall allows SSH.")
    assert "jupyter tpu delete my-tpu" in lost.hint
    alone = finding(ExaminedHost(host=0, facts=gone))
    assert alone.hint == "Restart the TPU.", "it may be the firewall"


def test_who_has_the_chips_is_named_and_jax_is_unknown_then():
    busy, jax = findings(
        host(hardware={"holders": [HOLDER]}, check={"platform": "cpu", "devices": 1})
    )
    assert (busy.check, busy.state) == ("holders", "problem")
    assert busy.message == "The chips are in use by process 77 of root: python3 train.py."
    assert busy.hint == "To end it: jupyter tpu chips free my-tpu"
    assert (jax.check, jax.state) == ("jax", "unknown")


def test_a_kernel_may_have_the_chips():
    mine = host(
        hardware={"holders": [HOLDER]},
        owners={77: "The kernel of train.ipynb"},
        check={"platform": ""},
    )
    findings = diagnose([mine], EXPECTED)
    assert not [item for item in findings if item.state == "problem"]
    assert "The kernel of train.ipynb uses the chips (process 77)." in [f.message for f in findings]


def test_a_holder_is_named_with_its_age_its_container_and_its_notebook():
    old = {**HOLDER, "since": 1772373720.0, "age": 2.5 * 86400}
    boxed = {**old, "container": "0123456789ab", "stop": "sudo docker stop 0123456789ab"}
    problem = finding(host(0), host(1, hardware={"holders": [boxed]}, ports=COORDINATOR_PORTS))
    assert problem.message == (
        "The chips are in use by process 77 of root in the container 0123456789ab since "
        "2026-03-01 14:02 UTC (2 days): python3 train.py."
    )
    stop = "jupyter tpu ssh my-tpu --worker 1 --command 'sudo docker stop 0123456789ab'"
    assert problem.hint.startswith(f"To stop its container: {stop}. To end only the process: ")
    somewhere = finding(host(hardware={"holders": [{**old, "container": "?"}]}))
    assert "77 of root in a container since 2026" in somewhere.message
    assert "may start it again" in somewhere.hint
    elsewhere = finding(host(hardware={"holders": [{**HOLDER, "notebook": "train.ipynb"}]}))
    assert "of root (notebook train.ipynb): python3" in elsewhere.message


def test_what_cannot_be_seen_is_not_called_free():
    blind = finding(host(hardware={"complete": False}))
    assert (blind.check, blind.state) == ("holders", "unknown")
    assert blind.message.startswith("No process of yours uses the chips. Those of other users ")
    assert "sudo lsof -w /dev/accel* /dev/vfio/*" in blind.hint
    lock = {**LOCK, "held": True}
    hidden = finding(host(hardware={"lock": lock}))
    assert hidden.message == "A process that can't be seen from here holds libtpu's lock."
    error = "The TPU is already in use by process with pid 9."
    unseen, jax = findings(
        host(hardware={"complete": False}, check={"platform": "cpu", "backend_error": error})
    )
    assert unseen.check == "holders"
    assert jax.message.endswith("JAX was started, and says that the chips are in use.")


def test_a_lock_file_is_only_deleted_where_it_is_in_the_way_and_nobody_holds_it():
    left = finding(host(hardware={"lock": LOCK}))
    assert left.check == "lock"
    assert "is left over from root, and your programs can't use it" in left.message
    assert left.hint == "To delete it, if still no process holds it: jupyter tpu chips free my-tpu"
    both = findings(host(hardware={"lock": {**LOCK, "held": True}, "holders": [HOLDER]}))
    assert "lock" not in {item.check for item in both}, "a held lock is never deleted"
    mine = {"owner": "me"}
    assert not [f for f in diagnose([host(hardware={"lock": mine})], EXPECTED) if f.check == "lock"]
    roots = host(hardware={"lock": {**mine, "blocks_root": True}})
    (only,) = [f for f in diagnose([roots], EXPECTED) if f.check == "lock"]
    assert only.state == "ok"
    assert "It only blocks root's programs, because fs.protected_regular is on" in only.message
    assert "--command 'rm /tmp/libtpu_lockfile'" in only.hint
    everybody = finding(host(hardware={"lock": {**LOCK, "owner": "eve", "blocks_root": True}}))
    assert everybody.message.endswith(
        "Not even root's can use it, because fs.protected_regular is on."
    )


def test_chips_and_their_driver_are_compared_with_the_type():
    fewer = finding(host(hardware={"chips": ["v5e"] * 3}))
    assert (fewer.state, fewer.message) == ("problem", "The host has 3 of its 4 TPU chips.")
    undriven = [f for f in findings(host(hardware={"device_files": []})) if f.check == "chips"]
    assert "4 of 4 chips have no device file" in undriven[0].message


def test_the_cause_of_a_fallback_to_the_cpu_is_a_finding():
    cpu = {"platform": "cpu", "devices": 1}
    missing = finding(host(check={**cpu, "packages": {"jax": "0.10.2"}}))
    assert missing.check == "jax"
    assert missing.message == (
        "default: JAX does not use the TPU: the package libtpu is not installed."
    )
    platforms = findings(host(check=cpu, hardware={"variables": {"JAX_PLATFORMS": "cpu"}}))
    assert [platform.check for platform in platforms] == ["login", "jax"]
    assert "JAX_PLATFORMS=cpu" in platforms[1].message
    for platform in platforms:
        assert "jupyter tpu ssh my-tpu --command 'grep -ns -e JAX_PLATFORMS /etc/" in platform.hint
    assert missing.hint == "jupyter tpu env add my-tpu --env default 'jax[tpu]==0.10.2'"
    gone = "/usr/lib/libtcmalloc.so.4"
    preload = {"variables": {"LD_PRELOAD": gone}, "no_preload": gone}
    assert "which does not exist" in finding(host(hardware=preload)).message


def test_disks_logs_and_clocks_have_bounds():
    full = [{"path": "/home/me", "free": 1 << 29, "total": 100 << 30}]
    disk = finding(host(disks=full * 2))
    assert (disk.check, disk.state) == ("disk", "problem")
    assert disk.hint.endswith("jupyter tpu ssh my-tpu --command 'du -sh ~/* ~/.cache'")
    small = [{"path": "/tmp", "free": 1 << 29, "total": 10 << 30}]
    (other,) = findings(host(), host(1, disks=small, ports=COORDINATOR_PORTS))
    assert other.hint.endswith("jupyter tpu ssh my-tpu --worker 1 --command 'du -sh /tmp/*'")
    logs = finding(host(logs=3 << 30))
    assert "/tmp/tpu_logs take 3.0 GiB" in logs.message
    assert "jupyter tpu ssh my-tpu --command 'sudo rm -r /tmp/tpu_logs'" in logs.hint


def test_a_clock_is_wrong_only_by_what_is_certain():
    behind = finding(host(clock=clock(-9.4, -7.4)))
    assert (behind.state, behind.message) == (
        "warning",
        "The clock is 7 s behind this computer's.",
    )
    assert "sudo systemctl restart chrony" in behind.hint
    assert not findings(host(clock=clock(-9.0, 2.0))), "its answer took 11 s"
    assert finding(host(clock=clock(3600.0, 3600.1))).state == "problem"
    hosts = [
        host(0, clock=clock(60.0, 61.0)),
        host(1, clock=clock(61, 62), ports=COORDINATOR_PORTS),
    ]
    for item in findings(*hosts):
        assert "this computer's clock is probably wrong" in item.hint


def test_variables_that_limit_programs_to_some_chips_are_explained():
    def limited(**variables: str) -> ExaminedHost:
        return host(hardware={"variables": variables}, check={"devices": 1})

    both = limited(TPU_VISIBLE_CHIPS="2", TPU_CHIPS_PER_PROCESS_BOUNDS="1,1,1")
    login, jax = findings(both)
    assert (login.check, login.state) == ("login", "warning")
    assert login.message == (
        "Logins set TPU_VISIBLE_CHIPS=2 and TPU_CHIPS_PER_PROCESS_BOUNDS=1,1,1, so a program sees "
        "1 of the host's 4 chips."
    )
    assert jax.message == "default: JAX sees 1 of 4 devices (JAX 0.10.2, libtpu 0.0.42)."
    assert "TPU_VISIBLE_CHIPS=2" in jax.hint
    for name in ("TPU_VISIBLE_DEVICES", "TPU_CHIPS_PER_HOST_BOUNDS"):
        assert f"Logins set {name}=1,1,1, so" in findings(limited(**{name: "1,1,1"}))[0].message
    whole = {"TPU_VISIBLE_CHIPS": "0,1,2,3", "TPU_CHIPS_PER_PROCESS_BOUNDS": "2,2,1"}
    assert not findings(host(hardware={"variables": {**whole, "TPU_VISIBLE_DEVICES": ""}}))


def test_hosts_of_a_pod_are_compared_and_their_ports_checked():
    drifted = host(1, check={"packages": {"jax": "0.10.2", "libtpu": "0.0.41"}}, ports=[8470, 8471])
    versions, ports = findings(host(0), drifted)
    assert (versions.host, versions.check) == (1, "versions")
    assert "libtpu 0.0.41 instead of 0.0.42" in versions.message
    assert "ports 8474, 8476, 8482 of host 0" in ports.message
    newest = finding(host(0), host(1, ports=[p for p in COORDINATOR_PORTS if p != 8482]))
    assert newest.state == "warning"
    assert "HOST_0:8476" in newest.hint
    assert "jupyter tpu network setup lab --zone z" in newest.hint
    assert not findings(host(0), host(1, ports=COORDINATOR_PORTS))


def test_the_same_finding_of_many_hosts_is_one_line():
    hosts = [host(0), *(host(number, ports=COORDINATOR_PORTS) for number in range(1, 64))]
    text = describe(
        Diagnosis(
            tpu="my-pod",
            zone="z",
            emulated=False,
            healthy=True,
            findings=diagnose(hosts, EXPECTED),
        )
    )
    assert len(text.splitlines()) < 12
    assert "hosts 0-63: 4 v5e chips with device files." in text
    assert numbered([5, 0, 1, 2]) == "hosts 0-2, 5"


def test_an_emulated_tpu_says_so():
    emulated = ExpectedTPU(name="my-tpu", emulated=True, devices_per_host=4)
    bare = {"chips": [], "device_files": [], "emulated": True}
    findings = diagnose([host(hardware=bare, check={"platform": "cpu"})], emulated)
    assert {item.state for item in findings} == {"ok"}
    assert any(item.message.startswith("Emulated: ") for item in findings)


def test_without_an_environment_jax_is_unknown():
    empty = host()
    empty.facts = structs.replace(empty.facts, environments={})
    unknown = finding(empty)
    assert (unknown.check, unknown.state) == ("jax", "unknown")
    assert unknown.hint == "Create one: jupyter tpu connect my-tpu"


def test_a_service_account_without_the_scope_for_buckets_is_a_warning():
    def account(email: str, *scopes: str) -> ExaminedHost:
        examined = host()
        full = [f"https://www.googleapis.com/auth/{scope}" for scope in scopes]
        examined.facts = structs.replace(
            examined.facts, account=ServiceAccount(email=email, scopes=full)
        )
        return examined

    assert not findings(account("vm@project", "cloud-platform"))
    assert not findings(account("vm@project", "devstorage.read_write"))
    assert "Only reads" in finding(account("vm@project", "devstorage.read_only")).message
    assert "no scope for Cloud Storage" in finding(account("vm@project", "monitoring")).message
    assert "no service account" in finding(account("")).message


def test_the_scopes_are_asked_of_the_metadata_server(monkeypatch):
    class Metadata(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Metadata-Flavor"] == "Google"
            assert "/service-accounts/default/" in self.path
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(b'{"email": "vm@project", "scopes": ["cloud-platform"]}')

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{server.server_port}")
        server.status = 200
        assert service_account() == {"email": "vm@project", "scopes": ["cloud-platform"]}
        server.status = 404
        assert service_account() == {"email": "", "scopes": []}
        server.status = 500
        assert service_account() is None
        server.shutdown()
    assert service_account() is None, "nobody answers"
