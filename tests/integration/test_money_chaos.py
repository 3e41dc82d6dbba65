"""Servers are killed at random moments of create → connect → delete, while the cloud misbehaves.

Each lane is a user: a data folder, a zone, and a server process that is killed and started again.
A lane lives through one TPU after another. When a life is over and the faults are, nothing is left:
no TPU that the server does not show, nothing on a host, no kernelspec that points nowhere.

``CHAOS_SEED`` repeats a run as far as processes allow; ``CHAOS_KILLS`` and ``CHAOS_MINUTES`` say
how long it is.
"""

import collections
import contextlib
import json
import os
import random
import signal
import sqlite3
import threading
import time
import urllib.error
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ClassVar

import pytest
from adoption_server import Server
from shared_packages import share_packages
from waiting import until

KILLS = int(os.environ.get("CHAOS_KILLS", "100"))
#: After this time no server is killed any more, on a machine that has much else to do. Minutes.
MINUTES = float(os.environ.get("CHAOS_MINUTES", "15"))
ZONES = ("us-west4-a", "us-west1-c", "europe-west4-b")
#: For what must end by itself, with the 120 s after which a lost CreateNode has no effect. Seconds.
LIMIT = 420.0
CODES = ["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "ABORTED", "RESOURCE_EXHAUSTED"]
READ_CODES = [*CODES, "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"]
#: How many of the kills hit which moment, as the table says it.
Table = collections.Counter[tuple[str, str]]


class Lane:
    #: What is created; how Google says that there is no capacity.
    tpu: ClassVar[dict[str, Any]] = {"type": "v5litepod-1"}
    no_capacity = "capacity"
    #: Calls that fail, for "create", "delete", "look" and "poll".
    methods: ClassVar[dict[str, list[str]]] = {
        "create": ["CreateNode"],
        "delete": ["DeleteNode"],
        "look": ["GetNode"],
        "poll": ["GetOperation"],
    }

    def __init__(self, emulator: Any, zone: str, folder: Path, seed: str, kills: int) -> None:
        self.emulator = emulator
        self.zone = zone
        self.random = random.Random(seed)
        options = ["--ServerApp.jpserver_extensions=notebook=False"]  # it starts the sooner
        self.server = Server(folder, emulator.environment, *options)
        self.kills = kills  # still to come
        self.end = time.monotonic() + 60 * MINUTES
        self.table: Table = collections.Counter()
        self.ends: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []

    # ---- the cloud ----

    def nodes(self) -> dict[str, dict[str, Any]]:
        """The nodes of the zone by their ids in it."""
        path = f"/v2/projects/emulated/locations/{self.zone}/nodes"
        nodes = self.emulator.request("GET", path).get("nodes", [])
        return {node["name"].rpartition("/")[2]: node for node in nodes}

    def misbehave(self, *methods: str) -> None:
        """One or two faults of calls that are to come, or none."""
        for what in self.random.sample(methods, self.random.choice([0, 1, 1, 2])):
            method = self.random.choice(self.methods.get(what, self.methods["create"]))
            fault: dict[str, Any] = {"method": method, "count": self.random.randint(1, 3)}
            if what == "poll":
                fault |= {"kind": "error", "code": self.random.choice(READ_CODES)}
            elif what == "look":
                fault |= {"kind": "error", "code": self.random.choice(CODES[:3])}
            elif what == "capacity":
                fault = {"kind": "no-capacity", "count": 1}
            elif what == "silence":
                fault = {"kind": "silent", "method": method, "count": 1, "seconds": 4}
            elif what == "refusal":
                fault = {"kind": "refuse-delete", "count": 2}
            else:
                kind = self.random.choice(["lost-answer", "error"])
                # An error that is an answer to a creation would end it.
                kind = "lost-answer" if what == "create" else kind
                codes = CODES[:3] if kind == "lost-answer" else CODES
                fault |= {"kind": kind, "code": self.random.choice(codes)}
            self._inject(fault)
        if self.random.random() < 0.5:
            self._inject({"kind": "slow", "seconds": self.random.uniform(0, 3), "count": 2})

    def _inject(self, fault: dict[str, Any]) -> None:
        made = self.emulator.request("POST", "/emulator/v1/faults", {"zone": self.zone, **fault})
        self.faults.append(made["id"])

    def behave(self) -> None:
        for id in self.faults:
            with contextlib.suppress(Exception):  # it is used up
                self.emulator.request("DELETE", f"/emulator/v1/faults/{id}")
        self.faults.clear()

    # ---- the server ----

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The server's answer; an error of it is one, too."""
        try:
            return self.server.tpu(method, path, body)
        except urllib.error.HTTPError as error:
            return json.loads(error.read())

    def running(self) -> list[dict[str, Any]]:
        return [
            operation
            for operation in self.ask("GET", "operations")
            if operation["state"] == "running"
        ]

    def kill(self) -> None:
        """Kills the server, and writes down in what moment."""
        self.server.kill()
        self.kills -= 1
        self.table[self._moment()] += 1

    def _moment(self) -> tuple[str, str]:
        """What the dead server was doing, as it wrote it down, and what the cloud had."""
        doing = []
        path = self.server.folder / "tpu" / "fleet.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as database:
            try:
                rows = database.execute("SELECT record FROM operations WHERE state = 'running'")
            except sqlite3.OperationalError:  # it is not made yet
                return ("starting for the first time", "no TPU")
            for (row,) in rows.fetchall():
                record = json.loads(row)
                operation, claim = record["operation"], record.get("claim") or {}
                steps = (s["title"] for s in operation["steps"] if s["state"] == "running")
                if operation["kind"] == "create":
                    act = "cancel" if claim["want"] == "absent" else "create"
                    known = "accepted" if claim["creating"] or claim["node_id"] else "sent"
                    doing.append(f"{act}, {known if claim['sent'] else 'not sent'}")
                else:
                    doing.append(f"{operation['kind']}: {next(steps, 'begin')}")
        states = sorted(node["state"] for node in self.nodes().values())
        return ("; ".join(sorted(doing)) or "idle", " ".join(states) or "no TPU")

    def perhaps_kill(self, times: int) -> None:
        """Lets the server work for a moment and kills it, up to *times* times."""
        for _ in range(times):
            if self.kills <= 0 or time.monotonic() > self.end:
                break
            time.sleep(self.random.choice([0.1, 1.0, 4.0, 12.0]) * self.random.random())
            self.kill()
            self.server.start(wait=False)
            if self.random.random() < 0.8:  # else it may be killed while it starts
                self._until_it_answers()
        self._until_it_answers()

    def _until_it_answers(self) -> None:
        until(self.server.answers, why=self.server.log.read_text)
        self.ask("GET", "operations")  # it has its store

    def send(self, method: str, path: str, body: Any = None) -> threading.Thread:
        """A request that the server may not live to answer; ``answer`` is what it said."""
        thread = threading.Thread(target=self._send, args=(method, path, body), daemon=True)
        thread.answer = None
        thread.start()
        return thread

    def _send(self, method: str, path: str, body: Any) -> None:
        try:
            answer = self.ask(method, path, body)
        except (OSError, ValueError):
            return
        threading.current_thread().answer = answer

    # ---- a life ----

    def live(self, name: str) -> None:
        """One TPU from its creation to its end, with kills on the way."""
        trouble = ["create", "poll", "look"]
        trouble += ["capacity"] * (self.random.random() < 0.3)
        trouble += ["silence"] * (self.random.random() < 0.1)
        self.misbehave(*trouble)
        body = {"name": name, "zone": self.zone, "connect": {}, **self.tpu}
        creating = self.send("POST", "tpus", body)
        self.perhaps_kill(self.random.choice([0, 1, 1, 2, 3]))
        creating.join()
        accepted = creating.answer

        plan = self.random.choice(["cancel", "delete", "wait", "wait"])
        if plan == "cancel" and self._cancel():
            self.perhaps_kill(self.random.choice([0, 1, 2]))
            self.behave()
            self.rest()
            assert name not in self.nodes(), "it was cancelled, and bills"
            self.ends["cancelled"] += 1
        elif plan == "delete":
            self._delete(name)
        else:
            self.behave()
            self.rest()
            self._is_as_it_says(name, accepted)
            self.perhaps_kill(self.random.choice([0, 0, 1]))
        self.behave()
        for kills in (2, 2, 1, 0):  # killed early enough, a server has accepted nothing
            if name in self.nodes():
                self._delete(name, kills)
        self.nothing_is_left(name)

    def _cancel(self) -> bool:
        self.misbehave("delete", "poll", "look", "refusal")
        for operation in self.running():
            if operation["kind"] == "create":
                answer = self.ask("DELETE", f"operations/{operation['id']}")
                return answer.get("state") in ("running", "cancelled")
        return False

    def _delete(self, name: str, kills: int = 2) -> None:
        self.misbehave("delete", "poll", "look")
        deleting = self.send("DELETE", f"tpus/{name}")
        self.perhaps_kill(min(self.random.choice([0, 1, 1, 2]), kills))
        deleting.join()
        answer = deleting.answer
        self.behave()
        self.rest()
        if answer and answer.get("kind") == "delete":
            ended = self.ask("GET", f"operations/{answer['id']}")
            there = name in self.nodes()
            assert ended["state"] == ("failed" if there else "done"), ended
            self.ends[f"delete {ended['state']}"] += 1

    def rest(self) -> None:
        """Until nothing runs: no operation of the server, and nothing at the cloud."""

        def quiet() -> bool:
            busy = {"CREATING", "DELETING", "STARTING", "STOPPING"}
            states = {node["state"] for node in self.nodes().values()}
            return not self.running() and not states & busy

        until(quiet, LIMIT, lambda: json.dumps(self.running(), indent=1))

    def _is_as_it_says(self, name: str, accepted: dict[str, Any] | None) -> None:
        """After a creation that nobody cancelled: how it ended is how it is, and connects."""
        node = self.nodes().get(name)
        if accepted is None or accepted.get("kind") != "create":
            self.ends["create not accepted" if node is None else "create done, unheard"] += 1
            return
        ended = self.ask("GET", f"operations/{accepted['id']}")
        if ended["state"] == "failed":
            assert node is None, ended
            # Where Google has forgotten the operation, it does not say why there is no TPU.
            why = ended["problem"]["message"]
            gone = f"Google has no TPU called {name} now."
            assert self.no_capacity in why or why == gone, ended
            self.ends["create failed: no capacity"] += 1
            return
        assert ended["state"] == "done", ended
        assert node is not None, ended
        assert node["state"] == "READY"
        connects = [
            operation
            for operation in self.ask("GET", "operations")
            if operation["kind"] == "connect"
        ]
        [connect] = [connect for connect in connects if connect["tpu"] == name]
        assert connect["state"] == "done", connect["problem"]
        until(lambda: self._shown(name)["connection"] == "connected", LIMIT)
        # A slice has another one, for all its hosts at once.
        own = [spec for spec in self._kernelspecs() if not str(spec).endswith("-all-hosts")]
        assert len(own) == 1
        self.ends["create done, connected"] += 1
        # What worked on the host for a server that was killed has ended.
        until(lambda: not self._working(name), LIMIT, lambda: str(self._working(name)))

    def _shown(self, name: str) -> dict[str, Any]:
        return next(tpu for tpu in self.ask("GET", "tpus")["tpus"] if tpu["name"] == name)

    def _working(self, name: str) -> list[str]:
        """Programs on the host that make environments; and agents beyond the first."""
        lines = [p["cmdline"] for host in self.hosts(name) for p in host["processes"]]
        hosts = max(1, len(self.hosts(name)))
        daemons = [line for line in map(str, lines) if "jupyter_tpu" in line and "daemon" in line]
        return [line for line in map(str, lines) if "on_host" in line] + daemons[hosts:]

    def hosts(self, name: str) -> list[dict[str, Any]]:
        """Those of a TPU, with what runs in them."""
        hosts: list[dict[str, Any]] = self.emulator.hosts(name)
        return hosts

    def _kernelspecs(self) -> list[str]:
        return [
            path.parent.name for path in self.server.folder.glob("jupyter/kernels/*/kernel.json")
        ]

    def nothing_is_left(self, name: str) -> None:
        shown = {tpu["name"] for tpu in self.ask("GET", "tpus")["tpus"]}
        assert name not in shown | set(self.nodes())
        hosts = self.emulator.request("GET", "/emulator/v1/hosts")["hosts"]
        mine = [host for host in hosts if f"/{self.zone}/" in host["node"]]
        assert not mine, mine
        until(lambda: not self._kernelspecs(), LIMIT, lambda: str(self._kernelspecs()))
        folders = list(self.server.folder.glob("jupyter/kernels/*"))
        assert not folders, folders

    def run(self) -> None:
        self.server.start()
        try:
            life = 0
            while self.kills > 0 and time.monotonic() < self.end:
                life += 1
                self.live(f"{self.zone}-{life}")
        finally:
            self.server.stop(signal.SIGKILL)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_servers_that_are_killed_at_any_moment_leave_nothing_that_is_not_shown(
    emulator, tmp_path, tmp_path_factory, capsys
):
    run_lanes(Lane, ZONES, emulator, tmp_path, tmp_path_factory, capsys)


def run_lanes(
    kind: type[Lane],
    zones: Sequence[str],
    emulator: Any,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: Any,
) -> None:
    """One lane of *kind* in each zone, on an emulator of their own."""
    seed = os.environ.get("CHAOS_SEED") or str(random.randrange(10**6))
    with capsys.disabled():
        print(f"\nCHAOS_SEED={seed}", flush=True)
    state = tmp_path_factory.mktemp("chaos") / "state"
    share_packages(state, tmp_path_factory)
    emulator = type(emulator)(state, delay=0.7)  # no other test sees its faults
    lanes = [
        kind(emulator, zone, folder / zone, f"{seed} {zone}", -(-KILLS // len(zones)))
        for zone in zones
    ]
    started = time.monotonic()
    try:
        with ThreadPoolExecutor(len(lanes)) as threads:
            futures = [threads.submit(lane.run) for lane in lanes]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                for lane in lanes:
                    lane.kills = 0  # where one has failed, the others come to an end
            for future in futures:
                future.result()
        for lane in lanes:
            assert not lane.nodes()
    finally:
        emulator.stop()
        with capsys.disabled():
            print(report(lanes, time.monotonic() - started), flush=True)


def report(lanes: list[Lane], seconds: float) -> str:
    table: Table = sum((lane.table for lane in lanes), collections.Counter())
    ends = sum((lane.ends for lane in lanes), collections.Counter())
    lines = ["| kills | the server was at | at the cloud |", "| --- | --- | --- |"]
    for (doing, there), count in sorted(table.items()):
        lines.append(f"| {count} | {doing} | {there} |")
    lines.append(f"{sum(table.values())} kills in {seconds / 60:.1f} minutes")
    lines += [f"{count} × {end}" for end, count in sorted(ends.items())]
    return "\n".join(lines)
