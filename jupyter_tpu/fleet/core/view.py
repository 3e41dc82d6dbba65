"""How a TPU is shown: Google's description, what is desired and the links in one.

That includes what its state means, and what can be done now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct, field

from ...catalog import AcceleratorType
from ...cloud import Maintenance, Node, NodeName, NodeState, is_attached
from ...errors import Reason
from ...links import Link, LinkState
from ...retired import INSTEAD, tpu_node_error
from ...wording import count
from ..models import TPU, ConnectionState, Cost, Environment, Host, LinkStatus, Operation, Problem
from ..models.core import known_type, timestamp
from ..models.environments import Interruption
from ..models.files import MirroredProject, SharedFolders
from ..models.guard import Guard, GuardStop
from ..models.homes import Home
from ..models.money import billing_words, running_cost
from ..models.operation_kinds import KINDS
from ..models.sessions import SessionSetting
from .operation_records import OperationRecord

_WAIT = "Google is working on it. Wait."
_ANOTHER = "Delete it, and create another one."
_ADVICE = {
    NodeState.CREATING: "Google is creating it. Wait.",
    NodeState.STARTING: "Google is starting it. Wait.",
    NodeState.STOPPING: "Google is stopping it. Wait.",
    NodeState.STOPPED: "Start it, or delete it.",
    NodeState.RESTARTING: _WAIT,
    NodeState.REPAIRING: "Google is repairing it. Wait.",
    NodeState.HIDDEN: "Google has hidden it. It may come back.",
    NodeState.DELETING: "Google is deleting it. Wait.",
    NodeState.PREEMPTED: f"Google preempted it. {_ANOTHER}",
    NodeState.TERMINATED: f"Google terminated it. {_ANOTHER}",
    NodeState.FAILED: f"Google could not repair it. {_ANOTHER}",
    NodeState.UNKNOWN: "Google did not say more. Look again in a minute.",
}
#: Whether it can be stopped: what can be done later with one that is connected, and now.
_READY = {
    True: ("Stop or delete it when you no longer need it.", "Connect it, or stop or delete it."),
    False: ("Delete it when you no longer need it.", "Connect it, or delete it."),
}
_REASONS = {
    "": "",
    "idle": " because it was idle",
    "time": " because its time limit was reached",
    "cost": " because its cost limit was reached",
}
_BILLED = {
    NodeState.READY: "It is billed, used or not. ",
    NodeState.STOPPED: "Only its disk is billed. ",
}


def advice(node: Node, *, free: bool, connected: bool, guard_stop: GuardStop | None = None) -> str:
    """A few sentences, for people. free: whether it costs nothing while it is READY."""
    if is_attached(node.name):
        return "It is reached by SSH alone. Detach it when you no longer need it."
    if node.retired:
        return f"A TPU Node, which Google has retired. Delete it. {INSTEAD}"
    if node.waiting and not node.endpoints:  # a slice, whose waiting has no limit
        return "It waits for capacity, and is not billed. It waits until you cancel or delete it."
    if node.waiting:
        return "It waits for capacity, and is not billed. Google ends that after 2 hours at most."
    if node.state is NodeState.READY:
        later, now = _READY[_can_be_stopped(node)]
        now = later if connected else now
    else:
        now = _ADVICE[node.state]
    who = f"{_stopped(guard_stop)} " if guard_stop is not None else ""
    return who + ("" if free else _BILLED.get(node.state, "")) + now


def _can_be_stopped(node: Node) -> bool:
    """Compute Engine starts neither slices again, nor hosts that run for a limited time."""
    if node.api == "tpu":
        return True
    return len(node.endpoints) == 1 and node.tier in ("on-demand", "reserved")


def _stopped(stop: GuardStop) -> str:
    """Who has stopped it, when, and why."""
    why = _REASONS[stop.reason]
    if not stop.certain:
        return f"It was stopped while no Jupyter server watched it, probably by its guard{why}."
    when = datetime.fromisoformat(stop.time).astimezone(UTC) if stop.time else None
    return f"Its guard stopped it{f' at {when:%Y-%m-%d %H:%M} UTC' if when else ''}{why}."


class TPUFacts(Struct, kw_only=True):
    """What is known of one TPU, to be shown: each subject adds what it knows."""

    name: NodeName
    #: As Google describes it; where it does not (yet), as far as it is known: see *seen*.
    node: Node
    seen: bool = True
    emulated: bool = False
    connected: bool = False
    #: Whether this process keeps the links of connected TPUs up.
    supervised: bool = True
    links: Sequence[Link] = ()
    operations: Sequence[OperationRecord] = ()
    #: Since when and for how long it is READY (see `ReadyTimes`), and what it costs by the hour.
    since: float | None = None
    seconds: float | None = 0.0
    #: When it was first seen that it is no longer READY.
    ended: float | None = None
    cost: Cost = field(default_factory=Cost)
    environments: list[Environment] = field(default_factory=list)
    kernels: int = 0
    projects: list[MirroredProject] = field(default_factory=list)
    shares: SharedFolders | None = None
    guard: Guard | None = None
    guard_stop: GuardStop | None = None
    sessions: SessionSetting | None = None
    home: Home | None = None
    maintenance: Maintenance | None = None
    interruption: Interruption | None = None
    #: Why its desired state could not be carried out.
    failure: Problem | None = None
    #: Why the guard that it was created with is not set.
    unguarded: Problem | None = None
    #: A deletion or the undo of a creation that failed, after which nothing else was done with a
    #: TPU of the name.
    undeleted: Operation | None = None
    owner: str = ""
    not_yours: bool = False
    #: Whether it is the user's, and nothing has used it for hours.
    forgotten: bool = False
    agents_may_use: bool = False
    planned_by: str = ""

    @property
    def ready(self) -> bool:
        return self.seen and self.node.state is NodeState.READY


def node_to_create(name: NodeName, operations: Sequence[OperationRecord]) -> Node:
    """A TPU that Google has not described, as one of *operations* asks for it."""
    request = next((r.creation.request for r in operations if r.creation is not None), None)
    if request is None:
        return Node(name=name, id="", type="", state=NodeState.UNKNOWN)
    return Node(
        name=name,
        id="",
        type=request.type,
        state=NodeState.CREATING,
        tier=request.tier,
        run_for=request.run_for,
        version=request.version or "",
        api=request.api or "tpu",
    )


def view_tpu(facts: TPUFacts) -> TPU:
    name, node, links, cost = facts.name, facts.node, facts.links, facts.cost
    accelerator = known_type(node.type)
    running = [record.operation for record in facts.operations]
    working = any(not KINDS[operation.kind].patient for operation in running)
    states = {environment.state for environment in facts.environments}
    return TPU(
        name=name.node,
        zone=name.zone,
        project=name.project,
        id=node.id,
        type=node.type,
        meaning=_meaning(node, accelerator),
        state=node.state,
        cloud_state=node.cloud_state,
        health=node.health,
        version=node.version,
        tier=node.tier,
        run_for=node.run_for,
        run_ends=_run_ends(node),
        emulated=facts.emulated,
        created=node.created,
        ended="" if facts.ended is None else timestamp("seconds", at=facts.ended),
        cost=running_cost(cost, since=facts.since, seconds=facts.seconds),
        chips=accelerator.chips if accelerator else node.chips or 0,
        attached=is_attached(name),
        hosts=_hosts(node, links),
        connection=connection(
            state=node.state,
            connected=facts.connected,
            connecting=any(o.kind == "connect" for o in running),
            failed="failed" in states,
            ready="ready" in states,
            links=[link.state for link in links],
            supervised=facts.supervised,
        ),
        environments=facts.environments,
        kernels=facts.kernels,
        projects=facts.projects,
        shares=facts.shares,
        guard=facts.guard,
        guard_stop=facts.guard_stop,
        sessions=facts.sessions,
        home=facts.home,
        maintenance=facts.maintenance,
        interruption=facts.interruption,
        problem=_undeleted(node, facts.undeleted, cost)
        if facts.undeleted is not None and facts.undeleted.ended > node.created and not working
        else _problem(node, facts.environments, links, running, facts.unguarded, facts.failure),
        advice=advice(
            node,
            free=cost.usd_per_hour == 0,
            connected=facts.connected,
            guard_stop=facts.guard_stop,
        ),
        owner=facts.owner,
        not_yours=facts.not_yours,
        forgotten=facts.forgotten and not working,
        operations=[o.id for o in running],
        labels=node.labels,
        agents_may_use=facts.agents_may_use,
        planned_by=facts.planned_by,
        queued=node.queued,
        api=node.api,
        network=node.request.network or "",
        subnetwork=node.request.subnetwork or "",
        options=node.request.options,
        details=node.details,
    )


def _run_ends(node: Node) -> str:
    if node.waiting:  # its time begins when it has capacity
        return ""
    if node.ends:  # Google says it
        return timestamp("seconds", at=datetime.fromisoformat(node.ends).timestamp())
    if node.run_for is None or not node.created:
        return ""
    created = datetime.fromisoformat(node.created).timestamp()
    return timestamp("seconds", at=created + node.run_for)


def _meaning(node: Node, accelerator: AcceleratorType | None) -> str:
    if accelerator is not None:
        return accelerator.meaning
    chips, hosts = node.chips or 0, len(node.endpoints)
    if is_attached(node.name) and node.chips == 0:
        return f"{count(hosts, 'SSH host')} without a TPU"
    parts = count(chips, "chip") if chips else "", count(hosts, "host") if hosts > 1 else ""
    return " · ".join(filter(None, parts))


def _hosts(node: Node, links: Sequence[Link]) -> list[Host]:
    hosts = []
    for index, endpoint in enumerate(node.endpoints):
        host = Host(
            index=index,
            internal_address=endpoint.internal,
            external_address=endpoint.external,
        )
        if index < len(links):
            link = links[index]
            host.link = LinkStatus(
                state=link.state,
                since=link.since,
                problem=Problem.of(link.problem) if link.problem else None,
            )
        hosts.append(host)
    return hosts


def _undeleted(node: Node, deletion: Operation, cost: Cost) -> Problem:
    why = deletion.problem or Problem(message="", reason=Reason.INTERNAL)
    billed = billing_words(node, cost)
    sentences = (f"{node.name.node} was not deleted.", billed and f"{billed}.", why.message)
    return Problem(
        message=" ".join(filter(None, sentences)),
        reason=why.reason,
        hint=why.hint,
        scope=why.scope,
    )


def _problem(
    node: Node,
    environments: Sequence[Environment],
    links: Sequence[Link],
    running: Sequence[Operation],
    unguarded: Problem | None,
    failure: Problem | None,
) -> Problem | None:
    """What needs attention; while an operation runs, only what hinders it."""
    if node.retired:
        return Problem.of(tpu_node_error(node.name.node))
    if node.state.gone:
        preempted = node.state is NodeState.PREEMPTED
        return Problem(
            message=f"{node.name.node} {'was preempted' if preempted else 'has been terminated'}; "
            "it can't be started again.",
            reason=Reason.CONFLICT,
            hint="Delete it and create another one.",
        )
    working = [operation for operation in running if not KINDS[operation.kind].patient]
    problem = next(
        (operation.problem for operation in working if operation.problem is not None), unguarded
    )
    if working or problem is not None:
        return problem
    if not any(environment.state == "ready" for environment in environments):
        for environment in environments:
            if environment.problem is not None:
                return environment.problem
    for link in links:
        if link.state is LinkState.NEEDS_ATTENTION and link.problem is not None:
            return Problem.of(link.problem)
    if failure is not None:
        return failure
    return _health_problem(node)


def _health_problem(node: Node) -> Problem | None:
    """What Google says of its health, where that may be mended."""
    said = node.health_description
    if node.state not in (NodeState.READY, NodeState.RESTARTING, NodeState.REPAIRING):
        return None
    if node.health == "UNHEALTHY_MAINTENANCE":
        text = f"Maintenance of {node.name.node} is in progress. It may not be available."
        return Problem(
            message=f"{text} {said}".strip(),
            reason=Reason.UNAVAILABLE,
            hint="Wait until that is over. What ran there may have ended.",
        )
    if node.state is NodeState.READY and node.health not in ("", "HEALTHY"):
        return Problem(
            message=said or f"Google reports its health as {node.health}.",
            reason=Reason.UNAVAILABLE,
            hint="Google often repairs this. Stopping and starting the TPU may help.",
        )
    if node.state is NodeState.REPAIRING and said:
        return Problem(message=said, reason=Reason.UNAVAILABLE, hint="Wait until it is repaired.")
    return None


def connection(
    *,
    state: NodeState,
    connected: bool,
    connecting: bool,
    failed: bool,
    ready: bool,
    links: Sequence[LinkState],
    supervised: bool,
) -> ConnectionState:
    """How far connecting a TPU is.

    state: Google's; connected: whether it should be; connecting: a connect operation runs;
    failed: the last one failed; ready: an environment is ready; links: of all its hosts;
    supervised: this process keeps them up. (A command without a server does not, and can only show
    what is desired.)
    """
    if connecting:
        return ConnectionState.CONNECTING
    if failed and not ready:
        return ConnectionState.NEEDS_ATTENTION
    if not connected or state is not NodeState.READY:
        return ConnectionState.DISCONNECTED
    if LinkState.NEEDS_ATTENTION in links:
        return ConnectionState.NEEDS_ATTENTION
    if (links or not supervised) and all(link is LinkState.UP for link in links):
        return ConnectionState.CONNECTED if ready else ConnectionState.NEEDS_ATTENTION
    return ConnectionState.RECONNECTING
