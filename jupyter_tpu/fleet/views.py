"""How a TPU looks to the outside: Google's description, our wish and the links in one."""

from __future__ import annotations

from collections.abc import Sequence

from .. import catalog
from ..catalog import AcceleratorType, UnknownType
from ..cloud.models import Node, NodeName
from ..errors import Reason
from ..links import Link as HostLink
from ..links import LinkState
from .life import connection
from .models import TPU, Environment, Host, Link, Operation, Problem
from .operations import problem_of
from .store import EnvironmentRecord, OperationRecord


def kind_of(type: str) -> AcceleratorType | None:
    """What the catalog says of a type; None if nothing."""
    try:
        return catalog.accelerator_type(type)
    except UnknownType:
        return None


def tpu_of(
    name: NodeName,
    node: Node | None,
    *,
    emulated: bool,
    connected: bool,
    environments: Sequence[EnvironmentRecord],
    links: Sequence[HostLink],
    operations: Sequence[OperationRecord],
    kernels: int,
    supervised: bool,
) -> TPU:
    """node: None where Google has not described it (yet)."""
    wanted = next((r.create for r in operations if r.create is not None), None)
    node = node or Node(
        name=name,
        id="",
        type=wanted.type if wanted else "",
        state="CREATING" if wanted else "",
        tier=wanted.tier if wanted else "on-demand",
        version=wanted.version or "" if wanted else "",
    )
    kind = kind_of(node.type)
    running = [record.operation for record in operations]
    states = {record.environment.state for record in environments}
    return TPU(
        name=name.node,
        zone=name.zone,
        project=name.project,
        id=node.id,
        type=node.type,
        meaning=kind.meaning if kind else "",
        state=node.state,
        health=node.health,
        version=node.version,
        tier=node.tier,
        emulated=emulated,
        created=node.created,
        chips=kind.chips if kind else 0,
        hosts=_hosts(node, links),
        connection=connection(
            state=node.state,
            connected=connected,
            connecting=any(o.kind == "connect" for o in running),
            failed="failed" in states,
            ready="ready" in states,
            links=[link.state for link in links],
            supervised=supervised,
        ),
        environments=[r.environment for r in environments],
        kernels=kernels,
        problem=_problem(node, [r.environment for r in environments], links, running),
        operations=[o.id for o in running],
    )


def _hosts(node: Node, links: Sequence[HostLink]) -> list[Host]:
    hosts = []
    for index, endpoint in enumerate(node.endpoints):
        host = Host(
            index=index,
            internal_address=endpoint.internal,
            external_address=endpoint.external,
        )
        if index < len(links):
            link = links[index]
            host.link = Link(
                state=link.state,
                since=link.since,
                problem=problem_of(link.problem) if link.problem else None,
            )
        hosts.append(host)
    return hosts


def _problem(
    node: Node,
    environments: Sequence[Environment],
    links: Sequence[HostLink],
    running: Sequence[Operation],
) -> Problem | None:
    """Why it needs the user; what is being worked on is no problem yet."""
    if node.state in ("PREEMPTED", "TERMINATED"):
        word = "was preempted" if node.state == "PREEMPTED" else "has been terminated"
        return Problem(
            message=f"{node.name.node} {word}; it can't be started again.",
            reason=Reason.CONFLICT,
            hint="Delete it and create another one.",
        )
    if running:
        return None
    for environment in environments:
        if environment.problem is not None:
            return environment.problem
    for link in links:
        if link.state is LinkState.NEEDS_YOU and link.problem is not None:
            return problem_of(link.problem)
    if node.state == "READY" and node.health not in ("", "HEALTHY"):
        return Problem(
            message=node.health_description or f"Google says that it is {node.health}.",
            reason=Reason.UNAVAILABLE,
            hint="Google often mends this by itself; stopping and starting may help.",
        )
    return None
