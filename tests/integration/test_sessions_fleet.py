"""Sessions from outside of the notebook: chosen, saved, listed, restored and deleted by the server,
and saved before a TPU ends. A real server, kernels over real SSH, and the emulator's buckets.
"""

import subprocess
import sys
import urllib.error
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adoption_server import Client, Server
from waiting import until

TPU = "keeps-sessions"
ZONE = "us-west4-a"


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("sessions"), emulator.environment) as server:
        yield server
        server.end_sessions()
        if TPU in [tpu["name"] for tpu in server.tpu("GET", "tpus")["tpus"]]:
            server.delete_tpu(TPU)


@pytest.fixture(scope="module")
def spec(server: Server) -> str:
    """The kernelspec of a connected TPU, the same for all tests of this file."""
    return server.connect_tpu(TPU)


@pytest.fixture
def place(emulator: Any) -> str:
    bucket = f"kept-{uuid.uuid4().hex[:8]}"
    body = {"name": bucket, "location": "us-west4"}
    emulator.request("POST", "/storage/v1/b?project=emulated", body)
    return f"gs://{bucket}/sessions"


@pytest.fixture(autouse=True)
def nothing_left(server: Server) -> Iterator[None]:
    yield
    server.end_sessions()


#: An array of all hosts, and what each has for itself.
ALL_HOSTS = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mine, data = [jax.process_index()], np.arange(8.0)
spread = NamedSharding(Mesh(jax.devices(), "x"), P("x"))
everywhere = jax.make_array_from_callback(data.shape, spread, lambda at: data[at])
def total(array):
    whole = NamedSharding(array.sharding.mesh, P())
    return float(jax.jit(lambda x: x.sum(), out_shardings=whole)(array).addressable_data(0))
"""


class Notebook:
    """A notebook with a kernel on the TPU."""

    def __init__(self, server: Server, spec: str, path: str) -> None:
        self.kernel = server.start_session(spec, path)["kernel"]["id"]
        self.client = Client(server, self.kernel)
        self.client.connect()

    def begin(self, code: str, **more: Any) -> str:
        return self.client.execute(code, **more)

    def text(self, code: str) -> str:
        """What a cell prints."""
        request = self.client.execute(code)
        self.client.until_done(request)
        mine = [m for m in self.client.messages if m["parent_header"].get("msg_id") == request]
        return "".join(
            m["content"].get("text", "") + "\n".join(m["content"].get("traceback", []))
            for m in mine
        )


def refused(call: Any) -> str:
    with pytest.raises(urllib.error.HTTPError) as error:
        call()
    return "\n".join(error.value.__notes__)


def test_a_session_is_chosen_saved_listed_restored_and_deleted_from_outside(
    server: Server, spec: str, place: str
) -> None:
    setting = server.tpu("POST", f"tpus/{TPU}/sessions/setting", {"place": place, "seconds": 1})
    assert setting == {
        "automatic": True, "place": place, "seconds": 1, "keep_days": 30, "max_gb": 2,
    }  # fmt: skip
    assert server.tpu("GET", f"tpus/{TPU}")["sessions"] == setting
    first = Notebook(server, spec, "outside.ipynb")
    first.text("answer, generator = 41, (n for n in ())")
    # It saves automatically in the chosen place, without a command.
    # Its host may list it before its kernel has said that it is its own.
    path = f"tpus/{TPU}/sessions"
    sessions = until(lambda: [s for s in server.tpu("GET", path)["sessions"] if s["kernel"]])
    assert [(s["name"], s["place"], s["variables"]) for s in sessions] == [("outside", place, 1)]
    assert sessions[0]["missing"][0]["name"] == "generator"
    assert sessions[0]["kernel"] == first.kernel
    assert sessions[0]["notebook"].endswith("/outside.ipynb")
    assert sessions[0]["billed"]
    # It is saved when somebody asks for it.
    first.text("answer = 42")
    saved = server.finish(server.tpu("POST", f"tpus/{TPU}/sessions", {}))["result"]["kernels"]
    assert [(k["state"], k["name"], k["place"], k["variables"]) for k in saved] == [
        ("saved", "outside", place, 1)
    ]
    server.end_sessions()
    # The host's own word, with a fresh look into the bucket.
    listed = server.tpu("GET", f"tpus/{TPU}/sessions?fresh=true")
    assert listed["problems"] == []
    [session] = listed["sessions"]
    assert session["id"] == saved[0]["session"]
    assert session["jax"] == ""
    # A new kernel offers it; it is not overwritten by what that kernel has.
    second = Notebook(server, spec, "outside.ipynb")
    offered = "The variables of this notebook were saved at"
    until(lambda: offered in second.text("pass"))
    request = {"kernel": second.kernel}
    restoring = server.tpu("POST", f"tpus/{TPU}/sessions/{session['id']}/restore", request)
    [restored] = server.finish(restoring)["result"]["kernels"]
    assert (restored["state"], restored["variables"]) == ("restored", 1)
    assert second.text("print(answer)") == "42\n"
    # Twice asks first.
    again = server.tpu("POST", f"tpus/{TPU}/sessions/{session['id']}/restore", request)
    failed = until(lambda: ended(server, again))
    assert failed["state"] == "failed"
    assert "variables of the same names" in failed["problem"]["message"]
    server.end_sessions()
    assert "\noutside " in server.cli("session", "list").stdout
    forgotten = server.cli("session", "forget", "outside", "--yes").stdout
    assert forgotten == f"Deleted the session outside from {place}.\n"
    assert server.tpu("GET", f"tpus/{TPU}/sessions?fresh=true")["sessions"] == []
    assert server.tpu("GET", "sessions") == []


def ended(server: Server, operation: dict[str, Any]) -> dict[str, Any] | None:
    now = server.tpu("GET", f"operations/{operation['id']}")
    return now if now["state"] != "running" else None


def test_a_busy_kernel_is_named_and_a_restart_keeps_variables(server: Server, spec: str) -> None:
    chosen = server.cli("session", "auto", TPU, "--manual").stdout
    assert f"are saved on the disk of {TPU}.\nThey are saved when you ask for it" in chosen
    busy = Notebook(server, spec, "busy.ipynb")
    idle = Notebook(server, spec, "idle.ipynb")
    idle.text("kept = [1, 2, __import__('numpy').zeros(10**6)]")
    busy.text("lost = 1")
    busy.begin("while True: pass")
    saving = server.tpu("POST", f"tpus/{TPU}/sessions", {"seconds": 3})
    failed = until(lambda: ended(server, saving))
    states = {
        Path(kernel["notebook"]).name: kernel["state"] for kernel in failed["result"]["kernels"]
    }
    assert states == {"busy.ipynb": "busy", "idle.ipynb": "saved"}
    assert failed["problem"]["message"].startswith("1 of 2 kernels: ")
    assert "busy.ipynb was busy with a cell for 3 s." in failed["problem"]["message"]
    server.request("POST", f"/api/kernels/{busy.kernel}/interrupt")
    shown = server.cli("session", "save", TPU, "--kernel", idle.kernel[:8]).stdout
    assert "Saved 1 variable of" in shown
    # A restart with the variables.
    path = f"tpus/{TPU}/kernels/{idle.kernel}/restart"
    server.finish(server.tpu("POST", path, {}))
    idle.client.close()
    again = Client(server, idle.kernel)
    again.connect()
    idle.client = again
    assert idle.text("print(kept[:2], len(kept[2]))") == "[1, 2] 1000000\n"


def test_a_stop_saves_first_and_goes_on_although_a_kernel_or_the_bucket_refuses(
    server: Server, spec: str, place: str, emulator: Any, faults: Any
) -> None:
    server.tpu("POST", f"tpus/{TPU}/sessions/setting", {"place": place, "automatic": False})
    notebook = Notebook(server, spec, "stopped.ipynb")
    notebook.text("answer = 42")
    told = server.tpu("GET", f"tpus/{TPU}/consequences?act=stop")
    assert told["saves"]
    assert told["sessions_text"].startswith(f"Before that, their variables are saved in {place}")
    fault = faults("permission")
    required = {"end_kernels": True, "sessions": "require"}
    stopping = server.tpu("POST", f"tpus/{TPU}/stop", required)
    failed = until(lambda: ended(server, stopping))
    assert failed["state"] == "failed"
    assert "storage.objects" in failed["problem"]["message"]
    assert notebook.text("print(answer)") == "42\n"
    emulator.request("DELETE", f"/emulator/v1/faults/{fault['id']}")
    notebook.begin("import time\nanswer = 43\ntime.sleep(2)\nanswer = 44", cellId="cell-1")
    server.finish(server.tpu("POST", f"tpus/{TPU}/stop", {"end_kernels": True}))
    [session] = [s for s in server.tpu("GET", "sessions") if s["place"] == place]
    assert (session["name"], session["variables"]) == ("stopped", 2)
    listed = server.tpu("GET", f"tpus/{TPU}/sessions")
    assert session["id"] in [s["id"] for s in listed["sessions"]]
    assert "was not asked" in listed["problems"][0]["message"]
    assert "is STOPPED" in refused(
        lambda: server.tpu("DELETE", f"tpus/{TPU}/sessions/{session['id']}")
    )
    server.end_sessions()
    server.finish(server.tpu("POST", f"tpus/{TPU}/start", {"confirm_price": True}))
    until(lambda: server.tpu("GET", f"tpus/{TPU}")["connection"] == "connected", 120)
    after = Notebook(server, spec, "stopped.ipynb")
    restoring = server.tpu(
        "POST", f"tpus/{TPU}/sessions/{session['id']}/restore", {"kernel": after.kernel}
    )
    server.finish(restoring)
    assert after.text("print(answer)") == "44\n"


def test_what_is_saved_on_a_host_is_copied_to_this_computer_and_restored_from_there(
    server: Server, spec: str
) -> None:
    setting = {"place": "computer", "seconds": 1, "max_gb": 0.001}
    server.tpu("POST", f"tpus/{TPU}/sessions/setting", setting)
    first = Notebook(server, spec, "copied.ipynb")
    first.text("import numpy as np\nlarge, odd = np.arange(500_000), type('Odd', (), {})()")

    def copies() -> list[Any]:
        sessions = server.tpu("GET", "sessions")
        return [s for s in sessions if s["place"] == "computer" and s["name"] == "copied"]

    def problems() -> str:
        listed = server.tpu("GET", f"tpus/{TPU}/sessions")["problems"]
        return " ".join(problem["message"] for problem in listed)

    # What is too large is named, and asked for.
    until(lambda: "copied is not copied to this computer. It has 4 MB" in problems(), 60)
    assert copies() == []
    server.tpu("POST", f"tpus/{TPU}/sessions/setting", {**setting, "max_gb": 1})
    first.text("small = [1]")
    [copy] = until(copies, 60)
    assert (copy["tpu"], copy["notebook"].rpartition("/")[2]) == (TPU, "copied.ipynb")
    assert not copy["billed"]
    # All of it is the user's own. What has not changed is not copied again.
    here = Path(server.environment["JUPYTER_TPU_DATA_DIR"], "sessions", copy["id"])
    files = {path: path.stat() for path in here.rglob("*") if path.is_file()}
    assert {oct(stat.st_mode & 0o777) for stat in files.values()} == {"0o600"}
    assert {oct(path.stat().st_mode & 0o777) for path in here.rglob("*/")} == {"0o700"}
    [array] = [path for path, stat in files.items() if stat.st_size > 3_000_000]
    first.text("small = [1, 2]")
    until(lambda: copies()[0]["saved"] != copy["saved"], 60)
    assert array.stat().st_ino == files[array].st_ino
    # Nothing of it is left on the host but the session; restored into another kernel.
    server.end_sessions()
    [there] = [s for s in server.tpu("GET", "sessions") if s["name"] == "copied" and not s["place"]]
    server.tpu("DELETE", f"tpus/{TPU}/sessions/{there['id']}")
    second = Notebook(server, spec, "copied.ipynb")
    path = f"tpus/{TPU}/sessions/{copy['id']}"
    server.finish(server.tpu("POST", f"{path}/restore", {"kernel": second.kernel}))
    assert second.text("print(small, large.sum())") == "[1, 2] 124999750000\n"
    left = server.cli("run", TPU, "--", "ls", "-A", ".jupyter-tpu/session-copies").stdout
    assert left.strip() == ""
    # And in a notebook here, without pickles.
    cells = (
        "%load_ext jupyter_tpu",
        f"%tpu session restore copied --from {TPU}",
        "print(small, large.sum(), 'odd' in globals())",
    )
    ipython = [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", "\n".join(cells)]
    shown = subprocess.run(
        ipython, env=server.environment, capture_output=True, text=True, timeout=120
    ).stdout
    assert "Not restored: odd (it would have to be unpickled here" in shown, shown
    assert "[1, 2] 124999750000 False" in shown
    # What somebody has changed here is refused, and deleted by its user.
    server.end_sessions()
    server.tpu("POST", f"tpus/{TPU}/sessions/setting", {"automatic": False})
    third = Notebook(server, spec, "copied.ipynb")
    manifest = here / "manifests" / "copied.json"

    def refused() -> Any:
        """Why; None if the last copy came meanwhile."""
        manifest.write_text(manifest.read_text().replace("small", "smell"))
        asked = {"kernel": third.kernel, "overwrite": True}
        restoring = server.tpu("POST", f"{path}/restore", asked)
        return until(lambda: ended(server, restoring))["problem"]

    assert "is signed with another key" in until(refused)["message"]
    server.tpu("DELETE", path)
    assert not here.exists()


@pytest.mark.long
def test_a_stop_goes_on_after_its_server_was_killed_while_a_kernel_in_a_loop_was_waited_for(
    server: Server, spec: str, place: str
) -> None:
    server.tpu("POST", f"tpus/{TPU}/sessions/setting", {"place": place, "seconds": 1})
    notebook = Notebook(server, spec, "loops.ipynb")
    notebook.text("answer = 42")
    until(lambda: [s for s in server.tpu("GET", "sessions") if s["name"] == "loops"])
    notebook.begin("while True: pass", cellId="cell-7")
    until(lambda: [k for k in server.tpu("GET", f"tpus/{TPU}/kernels") if k["cell"] == "cell-7"])
    stopping = server.tpu("POST", f"tpus/{TPU}/stop", {"end_kernels": True})

    def is_saving() -> bool:
        steps = server.tpu("GET", f"operations/{stopping['id']}")["steps"]
        return steps[0]["state"] == "running"

    until(is_saving)
    server.kill()
    server.start()
    stopped = until(lambda: ended(server, stopping), 180)
    assert stopped["state"] == "done", stopped
    log = "\n".join(stopped["log"])
    assert "loops.ipynb was busy with a cell" in log, log
    assert server.tpu("GET", f"tpus/{TPU}")["state"] == "STOPPED"
    # The session of before is there, and which cell was running.
    [session] = [s for s in server.tpu("GET", "sessions") if s["name"] == "loops"]
    assert session["interrupted"]["cell"] == "cell-7"
    server.finish(server.tpu("POST", f"tpus/{TPU}/start", {"confirm_price": True}))


@pytest.mark.long
def test_the_cell_that_a_reboot_interrupts_is_known_with_the_session_before_it(
    server: Server, spec: str, place: str, emulator: Any
) -> None:
    server.tpu("POST", f"tpus/{TPU}/sessions/setting", {"place": place, "seconds": 1})
    notebook = Notebook(server, spec, "rebooted.ipynb")
    notebook.text("answer = 42")

    def session() -> Any:
        return next((s for s in server.tpu("GET", "sessions") if s["name"] == "rebooted"), None)

    until(lambda: (session() or {}).get("kernel") == notebook.kernel)
    notebook.begin("import time; time.sleep(3600)", cellId="cell-9")
    until(lambda: [k for k in server.tpu("GET", f"tpus/{TPU}/kernels") if k["cell"] == "cell-9"])
    node = f"projects/{emulator.state.project}/locations/{ZONE}/nodes/{TPU}"
    emulator.request("POST", "/emulator/v1/faults", {"kind": "reboot", "node": node})
    assert until(lambda: session()["interrupted"], 180)["cell"] == "cell-9"


@pytest.mark.long
def test_a_kernel_on_all_hosts_of_a_pod_is_saved_restored_and_deleted_from_outside(
    server: Server, spec: str, place: str
) -> None:
    """By itself, too. On the disks of all hosts, from there on this computer and on a TPU with one
    host, and before its TPU is deleted in a bucket.
    """
    tpu = f"pod-{uuid.uuid4().hex[:6]}"
    body = {
        "name": tpu, "type": "v4-16", "zone": "us-central2-b", "connect": {},
        "sessions": {"seconds": 1},
    }  # fmt: skip
    server.finish(server.tpu("POST", "tpus", body))
    for connecting in server.tpu("GET", f"tpus/{tpu}")["operations"]:
        server.finish(server.tpu("GET", f"operations/{connecting}"))
    [environment] = server.tpu("GET", f"tpus/{tpu}/environments")
    pod = environment["pod_kernelspec"]

    def sessions() -> list[Any]:
        listed = server.tpu("GET", f"tpus/{tpu}/sessions")["sessions"]
        return [one for one in listed if one["tpu"] == tpu]

    def files() -> str:
        count = "find ~/.jupyter-tpu/sessions -type f | wc -l"
        return server.cli("run", tpu, "--worker", "all", "--", "sh", "-c", count).stdout

    first = Notebook(server, pod, "pod.ipynb")
    first.text(ALL_HOSTS)
    [session] = until(sessions, 120)  # no cell has asked for it
    assert (session["hosts"], session["kernel"]) == (2, first.kernel)
    # A cell that runs is not interrupted, and named.
    first.begin("both = 'x'\nwhile True: pass")
    until(lambda: [k for k in server.tpu("GET", f"tpus/{tpu}/kernels") if k["state"] == "busy"])
    saving = server.tpu("POST", f"tpus/{tpu}/sessions", {"seconds": 3})
    failed = until(lambda: ended(server, saving))
    assert "pod.ipynb was busy with a cell for 3 s." in failed["problem"]["message"]
    server.request("POST", f"/api/kernels/{first.kernel}/interrupt")
    saved = server.finish(server.tpu("POST", f"tpus/{tpu}/sessions", {}))["result"]["kernels"]
    assert [(k["state"], k["name"]) for k in saved] == [("saved", "pod")]
    server.end_sessions()
    second = Notebook(server, pod, "pod.ipynb")
    path = f"tpus/{tpu}/sessions/{session['id']}"
    server.finish(server.tpu("POST", f"{path}/restore", {"kernel": second.kernel}))
    assert "[1] x\n" in second.text("%%host 1\nprint(mine, both)"), "each host has its own"
    assert "] 0\n" not in files()
    # What each host has on its disk is whole on this computer, for any number of hosts.
    saving = server.tpu("POST", f"tpus/{tpu}/sessions", {"place": "computer"})
    [copied] = server.finish(saving)["result"]["kernels"]
    assert copied["place"] == "computer"
    one = Notebook(server, spec, "one.ipynb")
    restoring = server.tpu(
        "POST", f"tpus/{TPU}/sessions/{copied['session']}/restore", {"kernel": one.kernel}
    )
    [restored] = server.finish(restoring)["result"]["kernels"]
    assert any("was saved on 2 hosts." in note for note in restored["notes"])
    assert one.text("print(mine, both, total(everywhere))") == "[0] x 28.0\n"
    again = {"kernel": second.kernel, "overwrite": True}
    there = f"tpus/{tpu}/sessions/{copied['session']}"
    server.finish(server.tpu("POST", f"{there}/restore", again))
    assert "28.0\n" in second.text("print(total(everywhere))")
    assert "[1] x\n" in second.text("%%host 1\nprint(mine, both)")
    server.tpu("DELETE", there)
    server.tpu("POST", f"tpus/{tpu}/sessions/setting", {"automatic": False})
    server.tpu("DELETE", path)
    assert files() == "[0-1] 0\n"
    # Before the end of the TPU.
    server.tpu("POST", f"tpus/{tpu}/sessions/setting", {"place": place, "automatic": False})
    required = {"end_kernels": True, "sessions": "require"}
    server.finish(server.tpu("DELETE", f"tpus/{tpu}", required))
    [kept] = [one for one in server.tpu("GET", "sessions") if one["place"] == place]
    assert (kept["tpu"], kept["hosts"]) == (tpu, 1)


def test_delete_says_which_sessions_are_lost_and_keeps_those_on_this_computer(
    server: Server, spec: str
) -> None:
    until(lambda: server.tpu("GET", f"tpus/{TPU}")["connection"] == "connected", 120)
    server.tpu("POST", f"tpus/{TPU}/sessions/setting", {"automatic": False})
    notebook = Notebook(server, spec, "deleted.ipynb")
    notebook.text("answer = 42")
    server.finish(server.tpu("POST", f"tpus/{TPU}/sessions", {}))
    told = server.tpu("GET", f"tpus/{TPU}/consequences?act=delete")
    assert not told["saves"]
    assert "deleted" in [session["name"] for session in told["lost_sessions"]]
    assert "To keep them, choose a bucket or this computer." in told["sessions_text"]
    required = {"end_kernels": True, "sessions": "require"}
    assert "can't be kept" in refused(lambda: server.tpu("DELETE", f"tpus/{TPU}", required))
    here = {"automatic": False, "place": "computer"}
    server.tpu("POST", f"tpus/{TPU}/sessions/setting", here)
    told = server.tpu("GET", f"tpus/{TPU}/consequences?act=delete")
    assert told["saves"]
    assert "are saved and copied to this computer" in told["sessions_text"]
    notebook.text("answer, more = 43, 44")
    server.finish(server.tpu("DELETE", f"tpus/{TPU}", required))
    left = server.tpu("GET", "sessions")
    assert all(s["place"] for s in left), "what was on its disk is gone"
    [deleted] = [s for s in left if s["name"] == "deleted"]
    assert (deleted["place"], deleted["variables"]) == ("computer", 2)
    assert "this computer" in server.cli("session", "list").stdout


def test_buckets_of_the_region_are_offered_first_and_others_with_a_warning(
    server: Server, place: str, emulator: Any, faults: Any
) -> None:
    near, far = place.split("/")[2], f"far-{uuid.uuid4().hex[:8]}"
    emulator.request(
        "POST", "/storage/v1/b?project=emulated", {"name": far, "location": "EUROPE-WEST4"}
    )
    listed = server.tpu("GET", f"zones/{ZONE}/buckets")
    assert (listed["region"], listed["problem"]) == ("us-west4", None)
    names = [bucket["name"] for bucket in listed["buckets"]]
    assert names.index(near) < names.index(far)
    warnings = {bucket["name"]: bucket["warning"] for bucket in listed["buckets"]}
    assert warnings[near] == ""
    assert warnings[far].startswith("The bucket is in europe-west4, and the TPU in us-west4:")
    shown = server.cli("session", "buckets").stdout
    assert f"gs://{far}" in shown
    faults("error", method="buckets.list", code="PERMISSION_DENIED")
    refused = server.cli("session", "buckets")
    assert "You may not list the buckets of the project" in refused.stderr
    assert server.tpu("GET", "zones/-/buckets")["buckets"] == []
