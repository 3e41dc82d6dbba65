"""What `pod_state` is told of cells, and what it wants to be done."""

from __future__ import annotations

from typing import Dict, FrozenSet, NamedTuple, Optional, Tuple, Union


class Result(NamedTuple):
    """How a cell ended on one host."""

    #: "ok", "error", "aborted"; "died": the kernel ended; "stuck": it does not react to interrupts.
    status: str
    ename: str = ""
    evalue: str = ""
    execution_count: Optional[int] = None


class PodCell(NamedTuple):
    """A cell that a client wants to run."""

    id: str
    hosts: Optional[FrozenSet[int]] = None  # None: all
    stop_on_error: bool = True
    check: bool = False  # it runs nothing, and checks whether all hosts are in step
    session: bool = False  # no cell, but a request about the kernel's session: see `pod_sessions`


class RunCell(NamedTuple):
    """Runs a cell on *hosts*. The *others* only count it."""

    cell: PodCell
    number: int
    hosts: Tuple[int, ...]
    others: Tuple[int, ...]


class Interrupt(NamedTuple):
    hosts: Tuple[int, ...]


class Look(NamedTuple):
    """Finds out where *hosts* are in a running cell, and shows it. *why*: "raised", "slow",
    "glance": while all of them are busy.
    """

    cell: PodCell
    hosts: Tuple[int, ...]
    why: str
    seconds: float


class Check(NamedTuple):
    """Starts the check of this number on *hosts*."""

    number: int
    hosts: Tuple[int, ...]


class Finish(NamedTuple):
    """A cell has ended: on each host with its result. *problem*: why the hosts are out of step."""

    cell: PodCell
    results: Dict[int, Result]
    interrupted: FrozenSet[int]  # hosts that the kernel interrupted, because another one raised
    by_user: bool
    problem: str


class Refuse(NamedTuple):
    """A cell does not run, because of a *problem*."""

    cell: PodCell
    problem: str


class Abort(NamedTuple):
    """A cell does not run, because one before it failed."""

    cell: PodCell


class Ready(NamedTuple):
    """The hosts have started; *problem*: or they have not."""

    problem: str


Action = Union[RunCell, Interrupt, Look, Check, Finish, Refuse, Abort, Ready]
