"""What a cell of a pod kernel shows beside its hosts' output, and whom the debugger reaches."""

import json
import re
import tracemalloc
from typing import Any

from jupyter_tpu.on_host.agent.pod.cell_output import RESTART, CellRequest, PodCellOutput
from jupyter_tpu.on_host.agent.pod.clients import Clients
from jupyter_tpu.on_host.agent.pod.direct_requests import DirectRequests
from jupyter_tpu.on_host.agent.pod.folding import TABS
from jupyter_tpu.on_host.agent.pod.pod_actions import Finish, PodCell, Result
from jupyter_tpu.on_host.agent.pod.positions import STILL_LOOKS
from jupyter_tpu.on_host.agent.pod.relaying import MessageRelay, parse
from jupyter_tpu.on_host.agent.protocol.events import CONTROL, IOPUB
from jupyter_tpu.on_host.agent.protocol.messages import MessageSigner


class Shown:
    """A cell on three hosts, and what it has published."""

    def __init__(self) -> None:
        self.published: list[tuple[str, dict[str, Any]]] = []
        request = CellRequest([], b"{}", {}, "code", 0, False)
        self.output = PodCellOutput(
            request, "id", [0, 1, 2], lambda kind, content: self.published.append((kind, content))
        )

    def texts(self) -> list[str]:
        """The latest text of each of its displays."""
        displays = {
            content["transient"]["display_id"]: content["data"]["text/plain"]
            for kind, content in self.published
            if kind in ("display_data", "update_display_data")
        }
        return list(displays.values())


def error(host: int, name: str) -> dict[str, Any]:
    return {"ename": name, "evalue": "bad", "traceback": ["Traceback", f"{name}: bad {host}"]}


def test_a_slow_host_is_shown_with_what_its_chips_run_and_that_the_debugger_has_stopped_it():
    cell = Shown()
    frame = {"line": 3, "file": "", "text": "step(x)", "function": "<module>"}
    cell.output.note_position(2, [frame])
    cell.output.note_places(2, [[0, "all-gather.7"], [1, "all-gather.7"], [3, "fusion\x1b[31m.1"]])
    cell.output.note_places(1, "no list of pairs")
    cell.output.show_slow([0], [1, 2], 10.0, 2)
    assert cell.texts() == [
        "Host 0 is done. Hosts 1, 2 are still running, 10 s later:\n"
        "Host 2 is at line 3: step(x)\n"
        "The chips of host 2 run all-gather.7 (chips 0, 1), fusion.1 (chip 3)\n"
        "The debugger has stopped host 2.\n"
        "An operation of all hosts, such as a collective, waits until each host has begun it."
    ]


def frames(line: int, text: str, *library: tuple[str, str]) -> list[dict[str, Any]]:
    """A host in a cell, and within it in functions of a package: their files and names."""
    cell = {"line": line, "file": "", "text": text, "function": "<module>"}
    inner = [{"line": 9, "file": f, "text": "", "function": name} for f, name in library]
    return [cell, *(inner or [cell])]


COLLECTIVE = frames(5, "m.process_allgather(x)", ("site-packages/jax/_src/array.py", "_value"))


def glance(cell: Shown, *positions: list[dict[str, Any]]) -> list[str]:
    """All hosts say where they are; what the cell shows then."""
    for host, position in enumerate(positions):
        cell.output.note_position(host, position)
    cell.output.show_standing()
    return cell.texts()


def test_hosts_that_stand_at_different_lines_are_told_until_one_goes_on():
    cell, sleeps = Shown(), frames(4, "time.sleep(600)")
    for _ in range(STILL_LOOKS - 1):
        assert glance(cell, COLLECTIVE, sleeps, COLLECTIVE) == []
    [text] = glance(cell, COLLECTIVE, sleeps, COLLECTIVE)
    assert text == (
        "The hosts have been at different lines for 15 s or more:\n"
        "Host 1 is at line 4: time.sleep(600)\n"
        "Hosts 0, 2 wait at line 5: m.process_allgather(x) (in _value)\n"
        "An operation of all hosts, such as a collective, waits until each host has begun it."
    )
    assert glance(cell, COLLECTIVE, sleeps, COLLECTIVE) == [text]
    assert len(cell.published) == 1, "it is sent again only if it changes"
    elsewhere = frames(7, "time.sleep(9)")
    assert glance(cell, COLLECTIVE, elsewhere, COLLECTIVE) == [""], "it goes on"
    for _ in range(STILL_LOOKS - 1):
        [text] = glance(cell, COLLECTIVE, elsewhere, COLLECTIVE)
    assert "Host 1 is at line 7: time.sleep(9)\n" in text
    cell.output.note(2, "stream", {"name": "stdout", "text": "more"})
    assert cell.texts() == [""], "there is output"


def test_hosts_that_are_at_one_line_or_move_are_not_told():
    cell = Shown()
    for _ in range(2 * STILL_LOOKS):
        assert glance(cell, COLLECTIVE, COLLECTIVE, COLLECTIVE) == []
    for number in range(2 * STILL_LOOKS):
        assert glance(cell, COLLECTIVE, frames(4 + number % 2, "step()"), COLLECTIVE) == []


def test_a_host_that_compiles_does_not_wait_and_one_that_says_nothing_is_named():
    cell = Shown()
    compiles = frames(4, "f(x)", ("site-packages/jax/_src/compiler.py", "backend_compile"))
    for _ in range(STILL_LOOKS):
        glance(cell, COLLECTIVE, compiles)
    [text] = cell.texts()
    assert "Host 1 is at line 4: f(x) (in backend_compile)\n" in text
    assert "Host 2 does not say where it is\n" in text


def test_a_host_that_does_not_react_is_not_called_interrupted():
    cell = Shown()
    for host in range(3):
        cell.output.note_position(host, COLLECTIVE)
    results = {
        0: Result("stuck", "Interrupted", "It does not react."),
        1: Result("error", "ValueError", "bad"),
        2: Result("error", "KeyboardInterrupt", ""),
    }
    end = Finish(PodCell("id"), results, frozenset({0, 2}), False, "Host 0 does not react.")
    text = "\n".join(cell.output.finish(end)["traceback"])
    assert "Host 0 is still at line 5: m.process_allgather(x)" in text
    assert "Host 2 was interrupted at line 5" in text
    end = Finish(PodCell("id"), results, frozenset(), True, "")
    assert "Host 2 raised KeyboardInterrupt" in cell.output.finish(end)["traceback"]
    assert "Host 0 was interrupted" not in text


def test_what_gloo_says_of_its_connections_is_left_out():
    cell = Shown()
    line = "is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\n"
    ranks = "".join(f"[Gloo] Rank {rank} {line}" for rank in range(4))
    assert not cell.output.note(0, "stream", {"name": "stdout", "text": ranks})
    assert not cell.output.note(0, "stream", {"name": "stdout", "text": f"{ranks}mine\n"})
    assert cell.output.note(0, "stream", {"name": "stdout", "text": "[Gloo] is mine\n"})
    assert cell.published == [("stream", {"name": "stdout", "text": "mine\n"})]
    for host in (1, 2):
        cell.output.note(host, "stream", {"name": "stdout", "text": "mine\n[Gloo] is mine\n"})
    cell.output.finish(Finish(PodCell("id"), {}, frozenset(), False, ""))
    assert cell.texts() == [], "all hosts printed the same"


def test_tracebacks_of_other_hosts_take_the_place_of_what_said_that_they_are_interrupted():
    cell = Shown()
    results = {host: Result("error", name, "bad") for host, name in enumerate(("A", "B", "C"))}
    cell.output.show_interrupted([2], {0: results[0]})
    for host, name in ((0, "A"), (1, "B"), (2, "C")):
        cell.output.note(host, "error", error(host, name))
    cell.output.finish(Finish(PodCell("id"), results, frozenset({2}), False, "They differ."))
    bundle = cell.published[1][1]["data"]
    assert bundle[TABS]["hosts"] == [[1], [2]]
    assert [text.partition("\n")[0] for text in cell.texts()] == [
        "Tracebacks of other hosts:", RESTART,
    ]  # fmt: skip
    assert "host 2: C: bad (interrupted):" in cell.texts()[0]
    kinds = [kind for kind, _ in cell.published]
    assert kinds == ["display_data", "update_display_data", "error", "display_data"]


def test_a_command_that_is_the_first_cell_has_a_number_so_that_it_is_not_shown_as_running():
    sent: list[Any] = []

    class Sockets:
        def send(self, channel: int, parts: list[bytes]) -> None:
            sent.append(parse(parts))

    clients = Clients(Sockets(), MessageSigner("", "kernel"))
    clients.end(CellRequest([], b"{}", {}, "%hosts", 0, False), {"execution_count": None})
    assert [message.content.get("execution_count") for message in sent] == [1, None]


class Debugged:
    """Requests of a client, and where they went."""

    def __init__(self) -> None:
        self.signer = MessageSigner("key", "client")
        self.sent: list[tuple[int, str]] = []
        self.ids: list[str] = []  # by which the hosts know the requests
        self.to_clients: list[str] = []
        self.failed: list[str] = []
        relay = MessageRelay(self.signer, self.signer)
        self.direct = DirectRequests(
            relay,
            lambda channel, parts: self.to_clients.append(parse(parts).kind),
            self,
            self.send,
        )

    def send(self, host: int, channel: int, parts: list[bytes]) -> None:
        self.sent.append((host, parse(parts).kind))
        self.ids.append(parse(parts).id)

    def refuse(self, idents: Any, header: bytes, kind: str, channel: int, why: Any) -> None:
        self.failed.append(why[1])

    def message(self, kind: str, content: dict[str, Any], parent: str = "") -> Any:
        header = json.dumps({"msg_id": parent}).encode() if parent else b"{}"
        return parse(self.signer.message(kind, content, parent=header))

    def ask(self, kind: str) -> str:
        """The id by which the host knows the request."""
        self.direct.submit(CONTROL, self.message(kind, {}))
        return self.ids[-1]


def test_the_debugger_reaches_the_chosen_host_and_all_else_host_0():
    client = Debugged()
    client.ask("debug_request")
    client.direct.debugged = 2
    request = client.ask("debug_request")
    client.ask("complete_request")
    assert client.sent == [
        (0, "debug_request"), (2, "debug_request"), (0, "complete_request"),
    ]  # fmt: skip
    assert client.direct.takes(2, client.message("debug_reply", {}, request))
    assert not client.direct.takes(0, client.message("debug_reply", {}, request))
    stopped = client.message("debug_event", {"event": "stopped"}, "a cell")
    assert not client.direct.takes(0, stopped)
    assert client.direct.takes(2, stopped)
    client.direct.received(2, IOPUB, stopped)
    assert (client.direct.stopped, client.to_clients) == (2, ["debug_event"])


def test_a_debugged_host_that_dies_fails_its_requests_and_host_0_is_debugged_again():
    client = Debugged()
    client.direct.debugged = 2
    client.ask("debug_request")
    client.ask("complete_request")
    client.direct.host_died(2, "It is gone.")
    assert (client.failed, client.direct.debugged) == (["It is gone."], 0)
    client.direct.host_died(0, "So is this.")
    assert client.failed == ["It is gone.", "So is this."]
    client.ask("inspect_request")
    assert client.failed[2:] == ["So is this."]


def test_what_16_hosts_print_needs_little_memory_and_what_is_left_out_is_said():
    published: list[dict[str, Any]] = []
    hosts = range(16)
    output = PodCellOutput(
        CellRequest([], b"{}", {}, "code", 0, False), "id", hosts,
        lambda kind, content: published.append(content),
    )  # fmt: skip
    tracemalloc.start()
    for part in range(10):
        for host in hosts:
            text = (f"{part} {'x' * 990} {host}\n") * 100
            output.note(host, "stream", {"name": "stdout", "text": text})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 300_000, "of 16 MB"
    output.finish(
        Finish(PodCell("a"), {host: Result("ok") for host in hosts}, frozenset(), False, "")
    )
    [text] = [content["data"]["text/plain"] for content in published]
    assert len(re.findall(r"\[… \d{6} characters …\]", text)) == 15
    assert len(text) < 16 * 80_000
