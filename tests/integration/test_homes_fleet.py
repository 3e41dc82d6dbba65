"""Home folders in a bucket: chosen, saved by the host itself, and back on the next TPU of the name.
A real server, hosts behind a real sshd, and the emulator's buckets.
"""

import urllib.error
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from adoption_server import Server
from waiting import until

TPU = "keeps-home"
ZONE = "us-west4-a"


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("homes"), emulator.environment) as server:
        server.connect_tpu(TPU)
        yield server
        server.end_sessions()
        if TPU in [tpu["name"] for tpu in server.tpu("GET", "tpus")["tpus"]]:
            server.delete_tpu(TPU)


@pytest.fixture
def place(emulator: Any) -> str:
    bucket = f"homes-{uuid.uuid4().hex[:8]}"
    body = {"name": bucket, "location": "us-west4"}
    emulator.request("POST", "/storage/v1/b?project=emulated", body)
    return f"gs://{bucket}/homes"


def home(server: Server) -> Any:
    return server.tpu("GET", f"tpus/{TPU}")["home"]


def shell(server: Server, command: str) -> str:
    return server.on_host(TPU, 0, "sh", "-c", command)


def ended(server: Server, operation: dict[str, Any]) -> dict[str, Any] | None:
    now = server.tpu("GET", f"operations/{operation['id']}")
    return now if now["state"] != "running" else None


def create_again(server: Server, **more: Any) -> None:
    body = {"name": TPU, "type": "v5litepod-4", "zone": ZONE, **more}
    server.finish(server.tpu("POST", "tpus", body))
    for connecting in server.tpu("GET", f"tpus/{TPU}")["operations"]:
        server.finish(server.tpu("GET", f"operations/{connecting}"))


def test_folders_come_back_before_the_job_of_the_next_tpu_of_the_name(
    server: Server, place: str
) -> None:
    shell(server, "mkdir -p ~/checkpoints ~/.ssh && echo 1 > ~/checkpoints/step && umask 077 && "
          "echo alias > ~/.bash_aliases && echo key > ~/.ssh/id_mine")  # fmt: skip
    chosen = server.cli("home", "set", TPU, "--in", place, "--idle", "1", ".ssh", ".bash_aliases",
                        "~/checkpoints")  # fmt: skip
    kept = f"These folders of {TPU} are kept in {place}: ~/.ssh, ~/.bash_aliases, ~/checkpoints"
    assert kept in chosen.stdout, chosen.stderr
    # Without being asked, when nothing has changed for a second.
    first = until(lambda: (home(server) or {}).get("saved"))
    shell(server, "echo 2 > ~/checkpoints/step")
    until(lambda: home(server)["saved"] != first)
    assert home(server)["left_out"] == [{"path": ".ssh/id_mine", "why": "keys are not saved"}]
    told = server.tpu("GET", f"tpus/{TPU}/consequences?act=delete")["lost"]
    assert any(f"these home folders are saved in {place}: ~/.ssh" in line for line in told)
    assert f"The next TPU called {TPU} gets them." in told
    # What is written just before the TPU is deleted is saved, too.
    shell(server, "echo 3 > ~/checkpoints/step")
    deleted = server.finish(server.tpu("DELETE", f"tpus/{TPU}", {}))
    assert any(line.startswith("Saved 2 files") for line in deleted["log"]), deleted["log"]
    [left] = server.tpu("GET", "homes")
    assert (left["tpu"], left["there"], left["files"]) == (TPU, False, 2)
    then = "cat ~/checkpoints/step > ~/seen; stat -c %a ~/.bash_aliases >> ~/seen"
    create_again(server, connect={"then_run": then})
    until(lambda: shell(server, "cat ~/seen || true").splitlines() == ["3", "600"])
    now = home(server)
    assert (now["there"], now["last"]["state"]) == (True, "restored")
    # And it goes on.
    shell(server, "echo 4 > ~/checkpoints/step")
    until(lambda: home(server)["saved"] > now["saved"])


def test_a_bucket_that_refuses_is_named_and_a_stop_that_needs_it_does_not_happen(
    server: Server, place: str, emulator: Any, faults: Any
) -> None:
    setting = {"place": place, "folders": ["checkpoints"]}
    server.tpu("POST", f"tpus/{TPU}/home", setting)
    shell(server, "mkdir -p ~/checkpoints; echo 5 > ~/checkpoints/step")
    fault = faults("permission")
    saving = server.tpu("POST", f"tpus/{TPU}/home/save")
    failed = until(lambda: ended(server, saving))
    assert failed["state"] == "failed"
    assert "storage.objects" in failed["problem"]["message"]
    stopping = server.tpu("POST", f"tpus/{TPU}/stop", {"sessions": "require"})
    failed = until(lambda: ended(server, stopping))
    assert failed["state"] == "failed"
    assert "storage.objects" in failed["problem"]["message"]
    assert server.tpu("GET", f"tpus/{TPU}")["state"] == "READY"
    emulator.request("DELETE", f"/emulator/v1/faults/{fault['id']}")
    saved = server.finish(server.tpu("POST", f"tpus/{TPU}/home/save"))["result"]
    assert saved["state"] == "saved"
    for folder in ("../x", "/etc", ".jupyter-tpu", "~"):
        with pytest.raises(urllib.error.HTTPError):
            server.tpu("POST", f"tpus/{TPU}/home", {"place": place, "folders": [folder]})
        wrong = {"place": place, "folders": [folder]}
        body = {"name": "never", "type": "v5litepod-1", "zone": ZONE, "home": wrong}
        with pytest.raises(urllib.error.HTTPError):
            server.tpu("POST", "tpus", body)


def test_a_save_that_is_killed_leaves_what_was_there_and_the_next_one_goes_on(
    server: Server, place: str, emulator: Any, faults: Any
) -> None:
    shell(server, "mkdir -p ~/killed; echo old > ~/killed/a; "
          "head -c 40000000 /dev/urandom > ~/killed/big")  # fmt: skip
    server.tpu("POST", f"tpus/{TPU}/home", {"place": place, "folders": ["killed"]})
    server.finish(server.tpu("POST", f"tpus/{TPU}/home/save"))
    shell(server, "echo new > ~/killed/a; head -c 40000000 /dev/urandom > ~/killed/big")
    fault = faults("slow-transfer", bytes_per_second=2_000_000)
    saving = server.tpu("POST", f"tpus/{TPU}/home/save")
    until(lambda: (home(server) or {}).get("doing") == "save")
    # The program's arguments are a Python, the agent's folder and its role.
    shell(server, "pkill -9 -f '[/]agent/[0-9a-f]* home$'")
    failed = until(lambda: ended(server, saving))
    assert failed["state"] == "failed"
    assert "ended without an answer" in failed["problem"]["message"]
    emulator.request("DELETE", f"/emulator/v1/faults/{fault['id']}")
    shell(server, "rm -r ~/killed")
    restored = server.finish(server.tpu("POST", f"tpus/{TPU}/home/restore"))["result"]
    assert restored["files"] == 2
    assert shell(server, "cat ~/killed/a") == "old\n"
    shell(server, "echo newer > ~/killed/a")
    assert server.finish(server.tpu("POST", f"tpus/{TPU}/home/save"))["result"]["new"] == 6


def test_an_announced_preemption_saves_without_a_server_and_forget_leaves_nothing(
    server: Server, place: str, emulator: Any, faults: Any
) -> None:
    setting = {"place": place, "folders": ["checkpoints"], "seconds": 3600}
    server.tpu("POST", f"tpus/{TPU}/home", setting)
    shell(server, "mkdir -p ~/checkpoints; echo last > ~/checkpoints/step")
    bucket = place.split("/")[2]

    def objects() -> list[str]:
        listed = emulator.request("GET", f"/storage/v1/b/{bucket}/o")
        return [item["name"] for item in listed.get("items", [])]

    until(lambda: home(server)["there"])
    assert objects() == []
    server.stop()
    node = f"projects/{emulator.state.project}/locations/{ZONE}/nodes/{TPU}"
    faults("preempt", node=node, seconds=3600)
    manifest = f"homes/home/{emulator.state.project}/manifests/{TPU}.json"
    until(lambda: manifest in objects(), 60, lambda: str(objects()))
    server.start()
    until(lambda: server.tpu("GET", f"tpus/{TPU}")["connection"] == "connected", 120)
    until(lambda: home(server)["saved"])
    forgotten = server.cli("home", "forget", TPU, "--yes").stdout
    assert forgotten == f"Deleted the home folders of {TPU} in the bucket.\n"
    assert objects() == []
    assert home(server) is None
