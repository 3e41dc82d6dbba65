"""The part of a job's keeper that looks after a server: see `policy`. It has no process, no thread
and no timer of its own: the keeper's loop calls it.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional

from ..guard.processes import LISTEN, port_of, socket_inodes, tcp_sockets
from ..protocol.dates import now as now_text
from .http_check import HttpCheck
from .metrics import RequestRates, read_figures
from .policy import HEALTHY, RESTARTING, STARTING, UNHEALTHY, ServingPolicy

#: Seconds for an answer, and bytes of it.
ANSWER_SECONDS, HEALTH_BYTES, METRICS_BYTES = 10.0, 64 << 10, 1 << 20
#: Seconds between two looks at its requests, and before missing metrics are asked for again.
LOOK_SECONDS, NO_METRICS_SECONDS = 15.0, 300.0
#: Seconds for which a server that starts counts as work, and one that answers none of its requests.
MOST_START_SECONDS = MOST_STALL_SECONDS = 3600.0
#: Seconds in which a server that has requests answers one, or some of it; else that is said.
STALL_SECONDS = 300.0
_STALLED = "It has not answered a request for %d minutes, although some are waiting."
#: Seconds for which the system remembers a connection that was closed. Source: tcp(7), TIME_WAIT.
REMEMBERED_SECONDS = 60.0
#: Characters of the lines that are told with a restart.
TAIL_CHARACTERS = 600
#: Loopback addresses as the system writes them: 127.0.0.0/8 ends in 7F, and ::1.
_LOOPBACK_4, _LOOPBACK_6 = "7F", "0" * 24 + "01000000"
_ANY = ("0" * 8, "0" * 32)


class ServerWatch:
    """Looks after one server.

    Parameters
    ----------
    spec: ``port``, ``health`` (path; "": any answer of "/" that is no server error), ``metrics``
        (path; "": none), ``patience`` (see `ServingPolicy`), ``shared`` (another job's process may
        listen already), ``checked`` (False: this host has no server of its own to check),
        ``group`` (it is restarted on several hosts together).
    report: called with what has changed of the job's status.
    """

    #: Seconds in which a server has to end after SIGTERM, when it is restarted.
    END_SECONDS = 10.0

    def __init__(self, spec: Dict[str, Any], report: Callable[[Dict[str, Any]], None]) -> None:
        self._spec = spec
        self._port: int = spec["port"]
        self._report = report
        self._checked: bool = spec.get("checked", True)
        self.policy = ServingPolicy(
            float(spec.get("patience", 0.0)), time.monotonic(), group=spec.get("group", False)
        )
        self._check: Optional[HttpCheck] = None
        self._rates = RequestRates()
        self._asks_metrics = False
        self._stalled = ""  # what is said of requests that are not answered
        self._look_at = self._metrics_at = 0.0
        self._checks = 0  # since the last look at the metrics
        self._own_ports: Dict[int, float] = {}
        self._ended_for = ""  # why it is being ended by us
        self._started = self._worked = time.monotonic()
        self.status: Dict[str, Any] = {
            "state": STARTING if self._checked else HEALTHY,
            "since": now_text(),
            "problem": "",
            "restarts": 0,
            "was_healthy": not self._checked,
            "exposed": "",
            "requests": None,
            "tokens": None,
            "waiting": None,
            "worked": self._worked,  # on the system's clock since its start
        }
        if not self._checked:
            self.policy.checked(True, self._started)  # there is nothing to check

    def port_problem(self) -> str:
        """Why the server can't be started: another program has its port. "" if it can."""
        if self._spec.get("shared") or not self._checked:
            return ""
        inodes = [
            inode
            for local, _, state, inode in tcp_sockets()
            if state == LISTEN and port_of(local) == self._port
        ]
        return (
            "Port %d is used by another program%s." % (self._port, _owner(inodes)) if inodes else ""
        )

    # ---- what the keeper asks for

    def readers(self) -> "Dict[int, Callable[[], None]]":
        check = self._check
        reading = check.reading if check is not None else None
        return {reading: check.advance} if check is not None and reading is not None else {}

    def writers(self) -> "Dict[int, Callable[[], None]]":
        check = self._check
        writing = check.writing if check is not None else None
        return {writing: check.advance} if check is not None and writing is not None else {}

    def advance(self, now: float) -> float:
        """Looks at the server; returns when it has to be called again."""
        if self.policy.state == RESTARTING:
            return self.policy.start_at or now
        if not self._checked:
            return now + REMEMBERED_SECONDS
        check = self._check
        if check is not None:
            check.expire(now)
            if not check.done:
                return check.deadline
            self._check = None
            (self._metrics_read if self._asks_metrics else self._health_read)(check, now)
        if now >= self.policy.check_at:
            return self._ask(self._spec.get("health") or "/", HEALTH_BYTES, now)
        if self.policy.state != HEALTHY:
            return self.policy.check_at
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            if self._spec.get("metrics") and now >= self._metrics_at:
                return self._ask(self._spec["metrics"], METRICS_BYTES, now, metrics=True)
            self._look_at_connections(now)
        return min(self.policy.check_at, self._look_at)

    def is_to_end(self, now: float) -> bool:
        """Whether the keeper has to end the server, which is then started again. True once."""
        if not self.policy.is_to_end(now):
            return False
        return self.end_for(
            "It was ended because it did not answer its health checks (%s)."
            % self.status["problem"].rstrip(".")
        )

    def follow(self, restarts: int) -> bool:
        """Another host's was restarted so often. Whether the keeper has to end it. True once."""
        if self.policy.follow(restarts):
            return self.end_for("It was stopped because it ended on another host.")
        if self.policy.restarts != self.status["restarts"]:
            self._set(restarts=self.policy.restarts)
        return False

    def end_for(self, why: str) -> bool:
        """The keeper is about to end it; False if it does so already."""
        if self._ended_for:
            return False
        self._ended_for = why
        return True

    def exited(self, cause: str, tail: List[str], now: float) -> str:
        """The server has exited. A line for its log if it is started again; "" if it is not."""
        self._drop_check()
        cause, self._ended_for = self._ended_for or cause, ""
        if not self.policy.exited(now):
            if self.policy.restarts:
                self._set(problem="It was restarted %d times." % self.policy.restarts)
            return ""
        pause = (self.policy.start_at or now) - now
        last = " Its last lines: %s" % " / ".join(tail) if tail else ""
        self._set(
            state=RESTARTING,
            since=now_text(),
            problem=(cause + last)[:TAIL_CHARACTERS],
            restarts=self.policy.restarts,
            requests=None,
            tokens=None,
            waiting=None,
        )
        return "%s Starting it again in %g s (restart %d)." % (cause, pause, self.policy.restarts)

    def started(self, now: float) -> None:
        self.policy.started(now)
        self._started = now
        self._rates.forget()
        self._stalled = ""
        self._look_at = self._metrics_at = 0.0
        if self._checked:
            self._set(state=STARTING, since=now_text())
        else:
            self.policy.checked(True, now)
            self._set(state=HEALTHY, since=now_text(), problem="")

    def _drop_check(self) -> None:
        if self._check is not None:
            self._check.close()
            self._check = None

    # ---- checks

    def _ask(self, path: str, limit: int, now: float, *, metrics: bool = False) -> float:
        check = HttpCheck(self._port, path, limit, now + ANSWER_SECONDS)
        self._check, self._asks_metrics = check, metrics
        self._checks += 1
        self._own_ports = {
            port: at for port, at in self._own_ports.items() if now - at < 2 * REMEMBERED_SECONDS
        }
        self._own_ports[check.local_port] = now
        return now if check.done else check.deadline

    def _health_read(self, check: HttpCheck, now: float) -> None:
        ok = 200 <= check.status < 400 if self._spec.get("health") else 0 < check.status < 500
        self.policy.checked(ok, now)
        problem = ""
        if not ok:
            problem = check.problem or "it answers with status %d" % check.status
            problem = "%s: %s." % (check.path, problem)
        state = self.policy.state
        if state == UNHEALTHY:
            problem = "Its last health check failed. " + problem
        elif state == HEALTHY:
            problem = self._stalled if ok else self.status["problem"]
        if state != self.status["state"]:
            self._set(
                state=state,
                since=now_text(),
                problem=problem,
                exposed=self._exposed(),
                was_healthy=self.policy.was_healthy,
            )
        elif problem != self.status["problem"]:
            self._set(problem=problem)
        if state == STARTING and now < self._started + MOST_START_SECONDS:
            self._worked = now
            self._note_work(now)

    def _metrics_read(self, check: HttpCheck, now: float) -> None:
        body, complete = check.body()
        figures = None
        if check.status == 200:
            text = body.decode("utf-8", "replace")
            text = text if complete else text.rpartition("\n")[0]
            own = {self._spec["metrics"], self._spec.get("health") or "/"}
            figures = read_figures(text, own)
        if figures is None:
            self._metrics_at, self._stalled = now + NO_METRICS_SECONDS, ""
            return self._look_at_connections(now)
        self._rates.look(figures, now, self._checks)
        self._checks = 0
        stalled = now - (now if self._rates.stalled is None else self._rates.stalled)
        if self._rates.worked and stalled < MOST_STALL_SECONDS:
            self._worked = now
        self._stalled = _STALLED % (stalled // 60) if stalled >= STALL_SECONDS else ""
        if self.policy.state == HEALTHY and self._stalled != self.status["problem"]:
            self._set(problem=self._stalled)
        rates = {
            "requests": self._rates.requests,
            "tokens": self._rates.tokens,
            "waiting": self._rates.waiting,
        }
        if any(self.status[name] != value for name, value in rates.items()):
            self._set(**rates)
        return self._note_work(now)

    def _look_at_connections(self, now: float) -> None:
        """Without metrics: whether there was a connection other than ours. The system remembers
        those that were closed for a while.
        """
        for local, remote, state, _ in tcp_sockets():
            ports = port_of(local), port_of(remote)
            if state != LISTEN and self._port in ports:
                other = ports[0] if ports[1] == self._port else ports[1]
                if other not in self._own_ports:
                    self._worked = now
                    break
        self._note_work(now)

    def _note_work(self, now: float) -> None:
        if self._worked > self.status["worked"] + LOOK_SECONDS / 2:
            self._set(worked=self._worked)

    def _exposed(self) -> str:
        """An address other than loopback that the server listens on; "" if there is none."""
        for local, _, state, _ in tcp_sockets():
            if state == LISTEN and port_of(local) == self._port:
                address = local.rpartition(":")[0]
                if address in _ANY:
                    return "0.0.0.0" if len(address) == 8 else "::"
                if not address.endswith(_LOOPBACK_4) and address != _LOOPBACK_6:
                    return _dotted(address)
        return ""

    def _set(self, **fields: Any) -> None:
        self.status = {**self.status, **fields}
        self._report(self.status)


def _dotted(address: str) -> str:
    if len(address) == 8:  # little-endian
        return ".".join(str(int(address[at : at + 2], 16)) for at in (6, 4, 2, 0))
    return address


def _owner(inodes: List[str]) -> str:
    """Who listens, as far as that can be seen."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        if any(inode in inodes for inode in socket_inodes("/proc", int(name))):
            try:
                with open("/proc/%s/comm" % name) as file:
                    return " (process %s, %s)" % (name, file.read().strip())
            except OSError:
                break
    return ""
