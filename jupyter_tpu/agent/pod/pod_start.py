"""How a pod kernel's hosts become one: all kernels answer, have the same versions, join, and run a
first check. No I/O.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from .host_names import host_ranges

#: Seconds for each part of the start.
LIMITS = {"kernels": 90.0, "report": 30.0, "join": 180.0, "check": 120.0}
#: Differing files that are named.
NAMED = 5
#: What each part waits for, in words.
_WAITS = {
    "kernels": "Waiting for the kernel of %s to start.",
    "report": "Waiting for the versions of %s.",
    "join": "Waiting for %s to join the other hosts.",
    "check": "Waiting for the first operation of all hosts on %s.",
}


class Ask(NamedTuple):
    """Asks all hosts to do something; see `pod_member`. Each host's arguments."""

    do: str
    arguments: Dict[int, Dict[str, Any]]


class PodStart:
    """The start of a pod kernel on *hosts* hosts."""

    def __init__(self, hosts: int, now: float) -> None:
        self.part = "kernels"
        self.notices: List[str] = []  # what the first cell says
        self.problem = ""
        self.joined = False  # with JAX
        self._hosts = hosts
        self._missing = set(range(hosts))
        self._answers: Dict[int, Dict[str, Any]] = {}
        self._deadline = now + LIMITS["kernels"]

    @property
    def done(self) -> bool:
        return self.part == ""

    @property
    def waiting(self) -> str:
        """What it waits for, as a sentence."""
        return _WAITS[self.part] % host_ranges(self._missing) if self.part else ""

    def answered(self, host: int, part: str, answer: Dict[str, Any], now: float) -> bool:
        """A host has done a part. Returns whether it was the last one: then call `next`."""
        if part != self.part or host not in self._missing:
            return False
        self._missing.discard(host)
        self._answers[host] = answer
        if answer.get("problem"):
            self._end("Host %d could not join: %s." % (host, str(answer["problem"]).rstrip(".")))
        return not self._missing or self.done

    def tick(self, now: float) -> bool:
        """Whether a host has taken too long, which ends the start."""
        if self.done or now < self._deadline:
            return False
        self._end(self.waiting + " That took more than %.0f s." % LIMITS[self.part])
        return True

    def next(self, coordinator: str, bind: str, now: float) -> Optional[Ask]:
        """What to ask now that all hosts have answered; None: that was all.

        coordinator: the address and port at which host 0 coordinates. bind: where it listens.
        """
        if self.done:
            return None
        if self.part == "kernels":
            return self._ask("report", {}, now)
        if self.part == "report":
            self.notices += _differences(self._answers)
            arguments = {
                host: {
                    "coordinator": coordinator,
                    "bind": bind if host == 0 else "",
                    "processes": self._hosts,
                    "process": host,
                }
                for host in range(self._hosts)
            }
            return self._ask("join", arguments, now)
        if self.part == "join":
            problem = self._join_problem()
            if problem or not self.joined:
                self._end(problem)
                return None
            return self._ask("check", {host: {"number": 1000} for host in range(self._hosts)}, now)
        self._end("")
        return None

    def interrupt(self) -> None:
        """The user does not want to wait any longer."""
        self._end("The start of the hosts was interrupted.")

    def _ask(self, part: str, arguments: Dict[int, Dict[str, Any]], now: float) -> Ask:
        self.part, self._answers = part, {}
        self._missing = set(range(self._hosts))
        self._deadline = now + LIMITS[part]
        return Ask(part, arguments)

    def _join_problem(self) -> str:
        """Why the hosts' devices are not one system; "" if they are, or have no JAX."""
        answers = self._answers
        without = [host for host, answer in answers.items() if not answer.get("jax")]
        if len(without) == self._hosts:
            self.notices.append(
                "JAX is not installed in this environment, so the hosts are not connected by it."
            )
            return ""
        if without:
            return "JAX is not installed on %s." % host_ranges(without)
        local = sum(int(answer.get("local", 0)) for answer in answers.values())
        for host, answer in sorted(answers.items()):
            if answer.get("devices") != local or answer.get("processes") != self._hosts:
                return "JAX on host %d sees %s devices of %s hosts. All hosts together have %d." % (
                    host,
                    answer.get("devices"),
                    answer.get("processes"),
                    local,
                )
        kinds: Dict[str, List[int]] = {}
        for host, answer in answers.items():
            kinds.setdefault(str(answer.get("kind"))[:100], []).append(host)
        if len(kinds) > 1:
            self.notices.append(
                "Hosts differ in devices: %s."
                % "; ".join("%s on %s" % (kind, host_ranges(at)) for kind, at in kinds.items())
            )
        self.joined = True
        return ""

    def _end(self, problem: str) -> None:
        self.part, self.problem = "", problem


def _differences(reports: Dict[int, Dict[str, Any]]) -> List[str]:
    """In what the hosts differ: a sentence for each version, folder and set of files."""
    differences = []
    names = sorted({name for report in reports.values() for name in report.get("versions") or {}})
    for name in names:
        differences += _difference(
            name,
            {host: (report.get("versions") or {}).get(name) for host, report in reports.items()},
        )
    differences += _difference(
        "the working directory", {host: report.get("folder") for host, report in reports.items()}
    )
    files = {host: dict(report.get("files") or {}) for host, report in reports.items()}
    paths = sorted({path for file in files.values() for path in file})
    differing = [path for path in paths if len({file.get(path) for file in files.values()}) > 1]
    if differing:
        more = len(differing) - NAMED
        differences.append(
            "Hosts have different files: %s%s."
            % (", ".join(differing[:NAMED]), " and %d more" % more if more > 0 else "")
        )
    return differences


def _difference(name: str, values: Dict[int, Any]) -> List[str]:
    groups: Dict[str, List[int]] = {}
    for host, value in sorted(values.items()):
        groups.setdefault(str(value or "missing")[:200], []).append(host)
    if len(groups) < 2:
        return []
    parts = ["%s on %s" % (value, host_ranges(hosts)) for value, hosts in groups.items()]
    return ["Hosts differ in %s: %s." % (name, "; ".join(parts))]
