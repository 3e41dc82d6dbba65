"""Folders that hosts share over NFS: operations that make and end that, and how it is now."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...cloud import Node
from ...errors import InvalidInput, Reason, TPUError, error_for
from ...files import sharing
from ...files.sharing import Client, Share, SharingHost, Step
from ...links import HostName
from ...progress import StepPlan
from ...wording import other_hosts
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.view import TPUFacts
from ..models import (
    HostShare,
    Operation,
    Problem,
    SharedFolder,
    SharedFolders,
    ShareFolder,
    ShareResult,
    ShareStep,
    SharingState,
)
from ..models.core import timestamp, validated

_EXAMINE = StepPlan("examine", "Check the hosts", 1)
_SERVER = StepPlan("server", "Share the folder of host 0", 2, all_hosts=False)
_CLIENTS = StepPlan("clients", "Mount it on the other hosts", 3)
_UNMOUNT = StepPlan("clients", "Unmount it on the hosts", 3)
_UNSHARE = StepPlan("server", "Stop sharing it", 1, all_hosts=False)

#: `list` is a method below.
_Steps = list[Step]
_Found = tuple[dict[Client, SharingHost], list[str]]

#: Seconds for a host to say what it has, and to do its steps, which may install packages.
_EXAMINE_SECONDS, _CHANGE_SECONDS = 120.0, 1200.0
#: Seconds in which hosts are asked once more when something was changed.
_LOOK_SECONDS = 20.0


class ShareService:
    """The fleet's part ``shares``."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._connections = core.connections
        self._runner = core.runner
        self._changed = core.changes.mark_tpu_changed
        self._known: dict[str, SharedFolders] = {}  # by the id of a TPU
        core.tpus.register(self._describe)

    # ---- how it is ----

    def last_known(self, node: Node) -> SharedFolders | None:
        """What the hosts of a TPU said when they were last asked; None: they were not."""
        return self._known.get(node.id)

    def _describe(self, facts: TPUFacts) -> None:
        if facts.seen:
            facts.shares = self.last_known(facts.node)

    async def list(self, ref: str) -> SharedFolders:
        node = await self._finder.find_ready(ref)
        nodes = {node.name.node: node}
        sharing_hosts, problems = await self._found_on(nodes, {}, node)
        shares = {(share.tpu, share.path): share for share in _shares(sharing_hosts)}
        for share in shares.values():
            for name in {client.tpu for client in share.clients} - set(nodes):
                try:
                    other = await self._finder.find_ready(f"{node.name.zone}~{name}")
                except TPUError as error:
                    problems.append(f"{name}: {error.message}")
                    continue
                nodes[name] = other
                sharing_hosts, more = await self._found_on(nodes, sharing_hosts, other)
                problems += more
        known = self._known[node.id] = SharedFolders(
            folders=[_folder(share, nodes, sharing_hosts) for share in shares.values()],
            problems=problems,
            time=timestamp("seconds"),
        )
        self._changed(node.name)
        return known

    async def _list_again(self, nodes: Sequence[Node]) -> None:
        """Asks the hosts of the first TPU again; what the others said is not true any more."""
        for node in nodes:
            self._known.pop(node.id, None)
            self._changed(node.name)
        name = nodes[0].name
        with contextlib.suppress(TPUError, TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await self.list(f"{name.zone}~{name.node}")

    async def _found_on(
        self, nodes: dict[str, Node], by_client: dict[Client, SharingHost], node: Node
    ) -> _Found:
        answers = await self._on_hosts(_hosts_of(node), nodes, "examine_sharing", _EXAMINE_SECONDS)
        up = {host: answer for host, answer in answers.items() if not isinstance(answer, TPUError)}
        problems = [
            f"{_named(host)}: {answer.message}"
            for host, answer in answers.items()
            if isinstance(answer, TPUError)
        ]
        return by_client | up, problems

    # ---- changing it ----

    async def start(self, ref: str, request: ShareFolder) -> Operation:
        request = validated(request)
        folder = sharing.check_folder(request.folder)
        node = await self._finder.find_ready(ref)
        others = [await self._finder.find_ready(tpu) for tpu in request.tpus]
        for other in others:
            if other.name.zone != node.name.zone:
                raise InvalidInput(
                    f"{other.name.node} is in {other.name.zone}, and {node.name.node} in "
                    f"{node.name.zone}.",
                    "Only TPUs of one zone can share a folder.",
                )
        if len(node.endpoints) == 1 and not others and not request.remove:
            raise InvalidInput(
                f"{node.name.node} has no other host that could get the folder.",
                "Name another TPU of the zone, such as --with OTHER.",
            )

        async def work(progress: OperationProgress) -> None:
            result = ShareResult(request=request, path=folder)
            progress.operation.result = msgspec.to_builtins(result)
            try:
                await self._change(node, others, folder, request, result, progress)
            finally:
                progress.operation.result = msgspec.to_builtins(result)
                if not request.dry_run:
                    await self._list_again([node, *others])

        return await self._runner.start(self._runner.new_record("share", node.name), work)

    async def _change(
        self,
        node: Node,
        others: Sequence[Node],
        folder: str,
        request: ShareFolder,
        result: ShareResult,
        progress: OperationProgress,
    ) -> None:
        nodes = {other.name.node: other for other in (node, *others)}
        steps = [_UNMOUNT, _UNSHARE] if request.remove else [_SERVER, _CLIENTS]
        hosts = sum(len(node.endpoints) for node in nodes.values())
        progress.plan([_EXAMINE, *([] if request.dry_run else steps)], hosts, measured=True)
        progress.begin("examine")
        first = _hosts_of(node)[0]
        known = await self._examine([first], nodes, folder, result, progress)
        share, kept = await self._share(node, others, request, known[first], nodes, progress)
        result.path = share.path
        known |= await self._examine(
            [client for client in share.clients if client not in known],
            nodes,
            folder,
            result,
            progress,
        )
        asked = {other.name.node for other in (node, *others)}
        share = sharing.without_strangers(share, asked, known)
        known = {host: known[host] for host in (first, *share.clients)}
        plans = _plans(share, kept, first, known, result)
        progress.done("examine")
        if request.dry_run:
            return
        clients = {host: plan for host, plan in plans.items() if host != first}
        for step in steps:
            progress.begin(step.key)
            chosen = clients if step.key == "clients" else {first: plans[first]}
            await self._apply(chosen, nodes, step.key, result, progress)
            progress.done(step.key)

    async def _share(
        self,
        node: Node,
        others: Sequence[Node],
        request: ShareFolder,
        host: SharingHost,
        nodes: dict[str, Node],
        progress: OperationProgress,
    ) -> tuple[Share, tuple[Client, ...]]:
        """What is to be; or the hosts that lose the folder, and those that keep it."""
        before = next(
            (
                sharing.share_of(share)
                for share in host.shares
                if share["role"] == "server" and share["path"] == host.path
            ),
            None,
        )
        if request.remove and before is None:
            raise TPUError(
                f"{node.name.node} shares no folder {host.path}.",
                Reason.NOT_FOUND,
                f"`jupyter tpu share {node.name.node} --list` shows what it shares.",
            )
        for name in {client.tpu for client in before.clients} - set(nodes) if before else ():
            try:
                nodes[name] = await self._finder.find_ready(f"{node.name.zone}~{name}")
            except TPUError as error:
                if error.reason is not Reason.NOT_FOUND:
                    raise
                progress.log(f"{name} does not exist any more.")
        clients = [
            host
            for known in nodes.values()
            for host in _hosts_of(known)
            if (host.tpu, host.host) != (node.name.node, 0)
        ]
        lose = {other.name.node for other in others} if request.remove and others else set(nodes)
        share = Share(
            tpu=node.name.node,
            path=host.path,
            address=node.endpoints[0].internal,
            clients=tuple(client for client in clients if client.tpu in lose),
        )
        return share, tuple(client for client in clients if client.tpu not in lose)

    async def _examine(
        self,
        hosts: Sequence[Client],
        nodes: dict[str, Node],
        folder: str,
        result: ShareResult,
        progress: OperationProgress,
    ) -> dict[Client, SharingHost]:
        """What hosts say. Raises what any of them fails with, and names it: nothing is changed."""
        answers = await self._on_hosts(
            hosts, nodes, "examine_sharing", _EXAMINE_SECONDS, progress, "examine", folder=folder
        )
        failed = {h: e for h, e in answers.items() if isinstance(e, TPUError)}
        for host, error in failed.items():
            result.hosts.append(_host_share(host, [], "failed", error))
        _raise(failed, " Nothing was changed.")
        return answers

    async def _apply(
        self,
        plans: dict[Client, _Steps],
        nodes: dict[str, Node],
        key: str,
        result: ShareResult,
        progress: OperationProgress,
    ) -> None:
        shown = {(host.tpu, host.host): host for host in result.hosts}
        answers = await self._on_hosts(
            list(plans), nodes, "change_sharing", _CHANGE_SECONDS, progress, key, plans
        )
        failed = {}
        for host, answer in answers.items():
            entry = shown[(host.tpu, host.host)]
            entry.state = "done"
            if isinstance(answer, TPUError):
                failed[host] = answer
                entry.state, entry.problem = "failed", Problem.of(answer)
        _raise(failed, other_hosts(len(plans) - len(failed), "is done", "are done"))

    async def _on_hosts(
        self,
        hosts: Sequence[Client],
        nodes: dict[str, Node],
        function: str,
        timeout: float,
        progress: OperationProgress | None = None,
        key: str = "",
        plans: dict[Client, _Steps] | None = None,
        **arguments: Any,
    ) -> dict[Client, Any]:
        """The answer of each host, or its TPUError."""

        async def one(host: Client) -> Any:
            link = self._connections.link(HostName(nodes[host.tpu].name, host.host))
            own = {"steps": plans[host]} if plans is not None else arguments
            log = _logger(progress, host)
            try:
                answer = await sharing.PROGRAM.call(link, function, log=log, timeout=timeout, **own)
            except TPUError as error:
                # Who shows it names the TPU, too.
                message = error.message.removeprefix(f"On host {host.host}: ")
                return error_for(message, error.reason, error.hint)
            if progress is not None:
                progress.host_done(key)
            return answer

        answers = await asyncio.gather(*map(one, hosts))
        return dict(zip(hosts, answers, strict=True))


def _plans(
    share: Share,
    kept: tuple[Client, ...],
    first: Client,
    known: dict[Client, SharingHost],
    result: ShareResult,
) -> dict[Client, _Steps]:
    """The steps of each host, which the result shows. Raises CONFLICT for hosts that can't.

    kept: hosts that keep the folder when it is removed from others.
    """
    plans: dict[Client, _Steps] = {}
    failed = {}
    for host, facts in known.items():
        server = host == first
        error = None
        if not result.request.remove:
            make = sharing.server_steps if server else sharing.client_steps
            plans[host] = make(share, facts)
            why, hint = sharing.why_not(facts, server=server)
            if not server and facts.path != share.path:
                # Each host says where it would have the folder: host 0 does not choose it.
                why = f"here the folder would be {facts.path}, and on host 0 it is {share.path}"
                hint = "Name a full path, such as /home/me/shared."
            message = f"{why[:1].upper()}{why[1:]}."
            error = TPUError(message, Reason.CONFLICT, hint) if why else None
        elif server:
            plans[host] = sharing.server_removal(share, kept, facts)
        else:
            mine = (share.tpu, share.path)
            has = any((share["tpu"], share["path"]) == mine for share in facts.shares)
            plans[host] = sharing.client_removal(share) if has else []
        if error:
            failed[host] = error
        state = "failed" if error else "planned"
        result.hosts.append(_host_share(host, plans[host], state, error, server=server))
    if not result.request.dry_run:
        _raise(failed, " Nothing was changed.")
    return plans


def _host_share(
    host: Client,
    steps: Sequence[Step],
    state: Any,
    error: TPUError | None,
    *,
    server: bool = False,
) -> HostShare:
    return HostShare(
        tpu=host.tpu,
        host=host.host,
        role="server" if server else "client",
        state=state,
        steps=[
            ShareStep(text=sharing.step_text(step), content=sharing.step_content(step))
            for step in steps
        ],
        problem=Problem.of(error) if error else None,
    )


def _raise(failed: dict[Client, TPUError], rest: str) -> None:
    if failed:
        first = next(iter(failed.values()))
        named = " ".join(f"{_named(host)}: {error.message}" for host, error in failed.items())
        raise error_for(f"{named[0].upper()}{named[1:]}{rest}", first.reason, first.hint)


def _hosts_of(node: Node) -> list[Client]:
    return [
        Client(node.name.node, number, endpoint.internal)
        for number, endpoint in enumerate(node.endpoints)
    ]


def _named(host: Client) -> str:
    return f"host {host.host} of {host.tpu}"


def _logger(progress: OperationProgress | None, host: Client) -> Callable[[str], None]:
    if progress is None:
        return lambda line: None
    return lambda line: progress.log(f"{host.tpu} {line}")


def _shares(by_client: dict[Client, SharingHost]) -> list[Share]:
    """What hosts have files of; what host 0 of its TPU says counts more."""
    headers = [share for facts in by_client.values() for share in facts.shares]
    headers.sort(key=lambda header: header["role"] == "server")
    return [sharing.share_of(header) for header in headers]


def _folder(
    share: Share, nodes: dict[str, Node], by_client: dict[Client, SharingHost]
) -> SharedFolder:
    states = []
    server = Client(share.tpu, 0, share.address)
    for host in (server, *share.clients):
        if host.tpu not in nodes:
            continue
        facts = next(
            (f for h, f in by_client.items() if (h.tpu, h.host) == (host.tpu, host.host)), None
        )
        states.append(_state(host, facts, share, server=host is server))
    return SharedFolder(path=share.path, tpu=share.tpu, hosts=states)


def _state(host: Client, facts: SharingHost | None, share: Share, *, server: bool) -> SharingState:
    role: Any = "server" if server else "client"
    headers = facts.shares if facts else []
    mine = next((e for e in headers if e["path"] == share.path and e["role"] == role), None)
    if facts is None:
        problem = "The host did not answer."
    elif not mine:
        problem = "It does not have the folder. Share it again."
    elif not mine["mounted"]:
        problem = "The folder is not mounted. Share it again, or start host 0."
    else:
        problem = ""
    return SharingState(
        tpu=host.tpu, host=host.host, role=role, mounted=not problem, problem=problem
    )
