"""How a pod kernel's hosts become one: all kernels answer, have the same versions, join, and run a
first check. No I/O.

No host waits for the others where that is not needed: as soon as its kernel and that of host 0
answer, it is asked for everything, and does it one after the other.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Set

from .host_names import host_ranges, sentence

#: Seconds for each part of the start, from the end of the part before, or the latest answer.
LIMITS = {"kernels": 90.0, "report": 30.0, "join": 180.0, "check": 120.0}
#: The number of the first check; later ones are higher.
FIRST_CHECK = 1000
#: Differing files that are named.
NAMED_FILES = 5
#: What each part waits for, in words.
_WAITS = {
    "kernels": "Waiting for the kernel of %s to start.",
    "report": "Waiting for the versions of %s.",
    "join": "Waiting for %s to join the other hosts.",
    "check": "Waiting for the first operation of all hosts on %s.",
}


class Ask(NamedTuple):
    """Asks a host to do something; see `pod_member`."""

    host: int
    do: str
    arguments: Dict[str, Any]


class PodStart:
    """The start of a pod kernel on *hosts* hosts, from *now*: seconds, of a clock that never goes
    back.
    """

    def __init__(self, hosts: int, now: float) -> None:
        self.notices: List[str] = []  # what the first cell says
        self.problem = ""
        self.joined = False  # with JAX
        self._hosts = hosts
        self._missing: Dict[str, Set[int]] = {part: set(range(hosts)) for part in LIMITS}
        self._answers: Dict[str, Dict[int, Dict[str, Any]]] = {part: {} for part in LIMITS}
        self._done = False
        self._since = now  # of the part that it waits for
        self._unasked = set(range(hosts))

    @property
    def part(self) -> str:
        """The part that it waits for; "" if it is done."""
        return "" if self._done else next(part for part in LIMITS if self._missing[part])

    @property
    def waiting(self) -> str:
        """What it waits for, as a sentence."""
        part = self.part
        return _WAITS[part] % host_ranges(self._missing[part]) if part else ""

    def answered(self, host: int, part: str, answer: Dict[str, Any], now: float) -> bool:
        """A host has done a part. Returns whether that was the end of the start."""
        if self._done or host not in self._missing[part]:
            return False
        self._missing[part].discard(host)
        self._answers[part][host] = answer
        if answer.get("problem"):
            problem = str(answer["problem"]).rstrip(".")
            self._end("%s could not join: %s." % (sentence(host_ranges([host])), problem))
        elif not self._missing[part]:
            self._all_answered(part)
        self._since = now
        return self._done

    def _all_answered(self, part: str) -> None:
        if part == "report":
            self.notices += _differences(self._answers["report"])
        elif part == "join":
            problem = self._join_problem()
            if problem or not self.joined:
                self._end(problem)
        if not any(self._missing.values()):
            self._end("")

    def due(self, coordinator: str) -> List[Ask]:
        """What to ask the hosts whose kernels answer. *coordinator*: the address and port at which
        host 0 coordinates; others connect to it, so its kernel has to be there first.
        """
        missing = self._missing["kernels"]
        if self._done or 0 in missing:
            return []
        asks: List[Ask] = []
        for host in sorted(self._unasked - missing):
            self._unasked.discard(host)
            join = {
                "coordinator": coordinator,
                "bind": "" if host else coordinator,
                "processes": self._hosts,
                "process": host,
            }
            asks += [
                Ask(host, "report", {}),
                Ask(host, "join", join),
                Ask(host, "check", {"number": FIRST_CHECK}),
            ]
        return asks

    def tick(self, now: float) -> bool:
        """Whether a host has taken too long, which ends the start."""
        if self._done or now < self._since + LIMITS[self.part]:
            return False
        self._end(self.waiting + " That took more than %.0f s." % LIMITS[self.part])
        return True

    def interrupt(self) -> None:
        """The user does not want to wait any longer."""
        self._end("The start of the hosts was interrupted.")

    def _join_problem(self) -> str:
        """Why the hosts' devices are not one system; "" if they are, or have no JAX."""
        answers = self._answers["join"]
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
                return "JAX on %s sees %s devices of %s hosts. All hosts together have %d." % (
                    host_ranges([host]),
                    answer.get("devices"),
                    answer.get("processes"),
                    local,
                )
        kinds: Dict[str, List[int]] = {}
        for host, answer in sorted(answers.items()):
            kinds.setdefault(str(answer.get("kind"))[:100], []).append(host)
        if len(kinds) > 1:
            self.notices.append(
                "Hosts differ in devices: %s."
                % "; ".join("%s on %s" % (kind, host_ranges(at)) for kind, at in kinds.items())
            )
        self.joined = True
        return ""

    def _end(self, problem: str) -> None:
        """Ends it. What differs between the hosts may be the reason for a *problem*."""
        if problem and not self._done:
            if self._missing["report"]:
                self.notices = _differences(self._answers["report"])
            problem = " ".join([problem, *self.notices])
        self._done, self.problem = True, problem


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
    files = {  # None: too many to compare
        host: dict(report["files"])
        for host, report in reports.items()
        if report.get("files") is not None
    }
    paths = sorted({path for file in files.values() for path in file})
    differing = [path for path in paths if len({file.get(path) for file in files.values()}) > 1]
    if differing:
        more = len(differing) - NAMED_FILES
        differences.append(
            "Hosts have different files: %s%s."
            % (", ".join(differing[:NAMED_FILES]), " and %d more" % more if more > 0 else "")
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
