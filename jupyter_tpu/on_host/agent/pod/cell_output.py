"""The output of one cell of a pod kernel: put together from what its hosts publish. No I/O."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .folding import Fold, Transcript, bundle, differences, plain
from .host_names import host_ranges, number_ranges, sentence
from .pod_actions import Finish, Result
from .pod_state import GLANCE_SECONDS
from .positions import STILL_LOOKS, Positions

#: What to do when the hosts are out of step.
RESTART = (
    "Restart the kernel: it restarts on all hosts. (Run > Run All Above Selected Cell runs your "
    "cells again.) To run cells anyway, run %hosts continue first."
)
#: The same as a mime bundle; JupyterLab shows it with buttons (labextension/src/pod).
RESTART_OFFER: Dict[str, Any] = {
    "application/vnd.jupyter-tpu.out-of-step+json": {},
    "text/plain": RESTART,
}
#: Seconds for which hosts stand at different lines until the cell says it.
STANDING = GLANCE_SECONDS * STILL_LOOKS
#: Characters of a host's error that are shown.
LONGEST_ERROR_CHARACTERS = 2000

#: What ends an explanation of a cell that takes long.
COLLECTIVE = "An operation of all hosts, such as a collective, waits until each host has begun it."
#: What Gloo writes at the first collective of simulated devices, on each host several times.
_CONNECTED = re.compile(
    r"^\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. "
    r"Expected number of connected peer ranks is : \d+\n?",
    re.MULTILINE,
)

#: publish(message type, content)
Publish = Callable[[str, Dict[str, Any]], None]


class CellRequest(NamedTuple):
    """A client's execute_request."""

    idents: Sequence[bytes]
    header: bytes
    content: Dict[str, Any]
    code: str  # as the client sent it
    first_line: int  # the line of *code* at which the hosts' code begins, from 0
    silent: bool


class PodCellOutput:
    """Collects what hosts publish while they run a cell.

    Parameters
    ----------
    request: the cell.
    id: of its displays.
    hosts: that run it. What the first one publishes is shown as it comes.
    publish: publishes a message with the request as its parent.
    """

    def __init__(
        self, request: CellRequest, id: str, hosts: Sequence[int], publish: Publish
    ) -> None:
        self.request = request
        self.leader = hosts[0]
        self.replies: Dict[int, Dict[str, Any]] = {}
        self._id = id
        self._hosts = tuple(hosts)
        self._publish = publish
        self._transcripts = {host: Transcript() for host in hosts}
        self._errors: Dict[int, Dict[str, Any]] = {}
        self._positions = Positions(self._hosts, request.first_line)
        self._places: Dict[int, str] = {}  # what hosts' chips run
        self._shown: Dict[str, Dict[str, Any]] = {}
        self._begun = False

    # ---- what the hosts publish

    def note(self, host: int, kind: str, content: Dict[str, Any]) -> bool:
        """Takes a host's message. Returns whether it has to be passed on as it is."""
        leads = host == self.leader
        transcript = self._transcripts.get(host)
        if transcript is None:
            return False
        if kind == "execute_input":
            if not self._begun and not self.request.silent:
                self._begun = True
                count = content.get("execution_count")
                self._publish(kind, {"code": self.request.code, "execution_count": count})
            return False
        self._go_on()
        if kind == "stream":
            name, text = str(content.get("name")), str(content.get("text"))
            rest = _CONNECTED.sub("", text) if "[Gloo]" in text else text
            if rest:
                transcript.add_stream(name, rest)
            if rest != text:
                if leads and rest:
                    self._publish(kind, {"name": name, "text": rest})
                return False
        elif kind in ("display_data", "execute_result") and isinstance(content.get("data"), dict):
            transcript.add_display(content["data"])
        elif kind == "clear_output":
            transcript.clear()
        elif kind == "error":
            self._errors[host] = content
            return False
        return leads

    def note_position(self, host: int, frames: Any) -> None:
        """Takes where a host is in the cell; *frames* are what `pod_member` answers."""
        self._positions.note(host, frames)

    def ended(self, host: int, reply: Dict[str, Any]) -> None:
        """A host has ended the cell with this *reply*."""
        self.replies[host] = reply
        self._go_on()

    def note_places(self, host: int, places: Any) -> None:
        """Takes what libtpu says of a host's chips: pairs of a chip and its HLO operation."""
        self._places[host] = _places(places)

    # ---- what is shown during the cell

    def show_slow(
        self,
        done: Sequence[int],
        busy: Sequence[int],
        seconds: float,
        stopped: Optional[int] = None,
    ) -> None:
        """Some hosts are done, others have been busy since then for so many seconds. *stopped*: the
        host that the debugger has stopped.
        """
        lines = [
            "%s done. %s still running, %.0f s later:"
            % (sentence(_are(done)), sentence(_are(busy)), seconds)
        ]
        lines += self._positions.where(busy, "is at", "are at")
        for places in dict.fromkeys(self._places.get(host, "") for host in busy):
            at = [host for host in busy if self._places.get(host, "") == places]
            if places:
                lines.append("The chips of %s run %s" % (host_ranges(at), places))
        lines += _stopped(stopped, busy)
        self._show("slow", {"text/plain": "\n".join([*lines, COLLECTIVE])})

    def show_standing(self, stopped: Optional[int] = None) -> None:
        """All hosts are busy, and have been asked once more where they are. Says it if they stand
        at different lines. *stopped*: the host that the debugger has stopped.
        """
        lines = self._positions.standing()
        if lines:
            heading = "The hosts have been at different lines for %d s or more:" % STANDING
            lines = [heading, *lines, *_stopped(stopped, self._hosts), COLLECTIVE]
            self._show("standing", {"text/plain": "\n".join(lines)})
        else:
            self._withdraw("standing")

    def _go_on(self) -> None:
        """A host has printed something, or has ended the cell."""
        self._positions.note_progress()
        self._withdraw("standing")

    def show_interrupted(self, hosts: Sequence[int], raised: Dict[int, Result]) -> None:
        """The kernel interrupts hosts, because another one raised or died."""
        lines = self._raised(raised)
        lines += self._positions.where(hosts, "is interrupted at", "are interrupted at")
        self._show("interrupted", {"text/plain": "\n".join(lines)})

    def _show(self, which: str, data: Dict[str, Any]) -> None:
        """Shows *data*, in the place of what was shown under that name before."""
        if self.request.silent or self._shown.get(which) == data:
            return
        kind = "update_display_data" if which in self._shown else "display_data"
        self._shown[which] = data
        transient = {"display_id": "%s-%s" % (self._id, which)}
        self._publish(kind, {"data": data, "metadata": {}, "transient": transient})

    def _withdraw(self, which: str) -> None:
        if which in self._shown:
            self._show(which, {"text/plain": ""})

    # ---- its end

    def finish(self, end: Finish) -> Dict[str, Any]:
        """Shows how the cell has ended. Returns the content of its execute_reply."""
        self._withdraw("standing")
        for transcript in self._transcripts.values():
            transcript.finish()
        folds = [] if self.request.silent else differences(self._transcripts)
        if folds:
            others = {host for fold in folds for host in fold.hosts}
            same = [host for host in self._hosts if host not in others]
            heading = "The output above is that of %s. Different on:" % host_ranges(same)
            self._show("differences", bundle(heading, folds, host_ranges(same)))
        reply = dict(self.replies.get(self.leader) or next(iter(self.replies.values()), {}))
        error = self._error(end)
        if error is None:
            if end.problem:
                text = out_of_step(end.problem) + "\n"
                self._publish("stream", {"name": "stderr", "text": text})
                self._show("restart", RESTART_OFFER)
            return reply or {"status": "ok", "execution_count": None, "user_expressions": {}}
        if not self.request.silent:
            self._publish("error", error)
            if end.problem:
                self._show("restart", RESTART_OFFER)
        for name in ("user_expressions", "payload"):
            reply.pop(name, None)
        return {**reply, **error, "status": "error"}

    def _error(self, end: Finish) -> Optional[Dict[str, Any]]:
        """The content of the cell's error; None if no host had one."""
        failed = {host: result for host, result in end.results.items() if result.status != "ok"}
        if not failed:
            return None
        kinds = {(result.status, result.ename, result.evalue) for result in end.results.values()}
        first = _first(failed, end.interrupted)
        shown = self._errors.get(first) or {
            "ename": failed[first].ename or "Error",
            "evalue": failed[first].evalue,
            "traceback": ["%s: %s" % (failed[first].ename, failed[first].evalue)],
        }
        lines = [str(line) for line in shown.get("traceback") or ()]
        content: Dict[str, Any] = {
            "ename": str(shown.get("ename")),
            "evalue": str(shown.get("evalue")),
            "traceback": lines,
        }
        notes: List[str] = []
        if len(kinds) > 1 and len(end.results) > 1:
            notes += self._raised(failed, end.interrupted)
            stuck = {host for host, result in failed.items() if result.status == "stuck"}
            notes += self._positions.where(
                sorted((end.interrupted & set(failed)) - stuck),
                "was interrupted at",
                "were interrupted at",
                always="was interrupted",
            )
            notes += self._positions.where(sorted(stuck), "is still at", "are still at")
            fine = [host for host, result in end.results.items() if result.status == "ok"]
            if fine:
                notes.append("%s finished without an error" % sentence(host_ranges(fine)))
            content["evalue"] += " (%s)" % host_ranges(_alike(failed, first))
            self._show_tracebacks(failed, first, end)
        if end.problem:
            notes.append(out_of_step(end.problem))
        if notes:
            content["traceback"] = [*notes, "", *lines]
        return content

    def _show_tracebacks(self, failed: Dict[int, Result], first: int, end: Finish) -> None:
        """The tracebacks of the hosts that ended otherwise than the one that is shown."""
        groups: Dict[Tuple[str, str, bool], List[int]] = {}
        for host, result in failed.items():
            if host in self._errors:
                interrupted = host in end.interrupted
                groups.setdefault((result.ename, result.evalue, interrupted), []).append(host)
        folds = []
        for (ename, evalue, interrupted), hosts in groups.items():
            if first not in hosts:
                lines = self._errors[hosts[0]].get("traceback") or ()
                title = "%s: %s: %s" % (host_ranges(hosts), ename, evalue[:200])
                title = title.rstrip(": ") + (" (interrupted)" if interrupted else "")
                folds.append(Fold(tuple(hosts), title, plain("\n".join(map(str, lines)))))
        # The error says who was interrupted where: what said so before it has served its time.
        place = "interrupted" if "interrupted" in self._shown else "tracebacks"
        if folds:
            self._show(place, bundle("Tracebacks of other hosts:", folds))
        else:
            self._withdraw(place)

    def _raised(
        self, results: Dict[int, Result], interrupted: "frozenset[int]" = frozenset()
    ) -> List[str]:
        groups: Dict[str, List[int]] = {}
        for host, result in sorted(results.items()):
            if result.status == "died":
                groups.setdefault(result.evalue, []).append(host)
            elif result.status == "error" and host not in interrupted:
                text = ("raised %s: %s" % (result.ename, result.evalue)).rstrip(": ")
                groups.setdefault(text[:LONGEST_ERROR_CHARACTERS], []).append(host)
        return [
            text
            if results[hosts[0]].status == "died"
            else "%s %s" % (sentence(host_ranges(hosts)), text)
            for text, hosts in groups.items()
        ]


def out_of_step(problem: str) -> str:
    """The sentence with which a cell says that the hosts are out of step."""
    return "The hosts are out of step. %s" % problem


def _first(failed: Dict[int, Result], interrupted: "frozenset[int]") -> int:
    """The host whose error is the cell's: not one that was only interrupted."""
    return min(
        failed,
        key=lambda host: (
            host in interrupted,
            failed[host].status == "died",
            failed[host].ename == "KeyboardInterrupt",
            host,
        ),
    )


def _alike(failed: Dict[int, Result], first: int) -> List[int]:
    kind = failed[first][:3]
    return [host for host, result in failed.items() if result[:3] == kind]


def _stopped(stopped: Optional[int], hosts: Sequence[int]) -> List[str]:
    if stopped is None or stopped not in hosts:
        return []
    return ["The debugger has stopped %s." % host_ranges([stopped])]


def _are(hosts: Sequence[int]) -> str:
    return "%s %s" % (host_ranges(hosts), "is" if len(hosts) == 1 else "are")


def _places(places: Any) -> str:
    """ "all-reduce.7 (chips 0-2), fusion.3 (chip 3)"; "" if nothing is known."""
    chips: Dict[str, List[int]] = {}
    with contextlib.suppress(TypeError, ValueError):
        for chip, name in places:
            chips.setdefault(plain(str(name))[:200], []).append(int(chip))
    texts = ["%s (%s)" % (name, number_ranges("chip", numbers)) for name, numbers in chips.items()]
    return ", ".join(texts)
