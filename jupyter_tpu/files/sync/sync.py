"""A folder of this machine and one of hosts: compared, and what changed is copied.

Nothing is overwritten or deleted that is not known: what a plan expects is checked on the target
right before each change. An end in the middle, of whatever, leaves whole files; the next sync finds
those that are the same by their hashes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ...concurrency import gather_or_cancel
from ...errors import TPUError
from ...on_host.files.changes import SENT_CHANGED, digest_of, has_content
from ...on_host.files.contents import DELTA_FROM
from ...on_host.files.tree import TreeEntry, is_safe
from ...progress import ProgressReporter, StepPlan
from ...ssh.host_program import COMMAND
from ..relay import Relays
from .bases import Base, Bases, Sent
from .local import LocalProject, is_skipped, too_large
from .outcome import HostOutcome, SyncOptions, SyncOutcome
from .plan import SyncPlan, make_plan
from .remote import Received, RemoteProject, StreamingHost

#: From so many bytes on hosts get changes from each other.
RELAY_FROM = 1 << 20

PUSH_STEPS = (
    StepPlan("read", "Read the folder", 1, all_hosts=False),
    StepPlan("copy", "Copy what changed", 9),
)
PULL_STEPS = (
    StepPlan("read", "Compare with the host", 1, all_hosts=False),
    StepPlan("copy", "Copy what changed", 9, all_hosts=False),
)

Tree = Mapping[str, TreeEntry]
#: What identifies a host and the two folders among all bases.
Key = tuple[str, ...]


async def push(
    hosts: Sequence[StreamingHost],
    local: LocalProject,
    root: str,
    bases: Bases,
    key: Callable[[int], Key],
    options: SyncOptions,
    progress: ProgressReporter,
) -> SyncOutcome:
    """Makes the folder *root* of all *hosts* like the local one. What fails on one host is in its
    outcome; the others continue.

    What was deleted here is deleted there, too, if no one has changed it there; if there is nothing
    left here, only with ``options.delete``.

    Raises TPUError where the local folder can't be read.
    """
    progress.begin("read")
    tree, skipped = await asyncio.to_thread(local.read)
    progress.done("read")
    progress.begin("copy")
    relays = Relays(hosts)  # of those that need the same changes, by the digest of these
    done = dict.fromkeys((host.host.number for host in hosts), 0.0)

    def advance(number: int, part: float) -> None:
        done[number] = part
        progress.part("copy", sum(done.values()) / len(done))

    async def on_host(host: StreamingHost) -> HostOutcome:
        number = host.host.number
        outcome = HostOutcome(host=number)
        try:
            async with RemoteProject.open(host, root) as remote:
                try:
                    base = await _push(host, remote, outcome)
                    await asyncio.to_thread(_save, bases, base, *key(number))
                finally:
                    outcome.transferred = remote.sent + remote.received
        except TPUError as error:
            outcome.problem = error
        else:
            progress.host_done("copy")
        finally:
            await relays.needs_nothing(host)
        advance(number, 1.0)
        return outcome

    async def _compare(remote: RemoteProject, number: int) -> tuple[Tree, list[list], Tree, Base]:
        """What is here and skipped here, what is on the host, and what was last the same.

        No other process copies to the host from its first answer on. If one did before that, what
        was read here may be older than what it has copied, so it is read again.
        """
        here, left_out = tree, skipped
        while True:
            base = bases.load(Base, *key(number))
            paths = sorted({*here, *base.states, *bases.load(Sent, *key(number)).states})
            there, base.paths = await remote.look_up(paths, base.paths)
            if bases.load(Base, *key(number)).states == base.states:
                break
            here, left_out = await asyncio.to_thread(local.unread().read)
        await asyncio.to_thread(_add_sent, bases, base, there, *key(number))
        return here, left_out, there, base

    async def _push(host: StreamingHost, remote: RemoteProject, outcome: HostOutcome) -> Base:
        tree, skipped, there, base = await _compare(remote, outcome.host)
        kept = await asyncio.to_thread(_existing, local, skipped, set(base.states) - set(tree))
        plan = make_plan(
            _states(tree),
            _states(there),
            base.states,
            delete=options.delete or bool(tree),
            overwrite=options.overwrite,
            within=lambda path: path not in kept and options.includes(path),
        )
        base.states = _note(outcome, plan, tree, there)
        if options.dry_run or not (plan.write or plan.delete):
            _foresee(outcome, plan, tree)
            return base
        changes = _changes(plan, tree, there)
        sent = Sent({path: tree[path].state for path in plan.write})
        await asyncio.to_thread(bases.save, sent, *key(outcome.host))
        total = sum(change["size"] for change in changes) or 1
        relayed = len(hosts) > 1 and total >= RELAY_FROM
        if not relayed:
            await relays.needs_nothing(host)
        gone = 0

        def went(size: int) -> None:  # from any thread
            nonlocal gone
            gone += size
            loop.call_soon_threadsafe(advance, outcome.host, min(gone / total, 1.0))

        async def send(some: list[dict], known: Mapping[str, Any], list_id: str = "") -> Received:
            return await remote.receive(str(local.path), some, known, went, list_id)

        whole: set[str] = set()  # sent from here, and not from an offset on or in parts

        async def send_all(list_id: str = "") -> Received:
            kept = {
                path: size
                for path, (state, size) in remote.kept.items()
                if path in tree and tree[path].state == state and size <= tree[path].size
            }
            large = [path for path in plan.write if _worth_delta(tree, there, path)]
            sizes = {path: tree[path].size for path in large if path not in kept}
            known = {**await remote.signatures(sizes), **kept}
            whole.update(set(tree) - set(known))
            return await send(changes, known, list_id)

        if relayed:
            results, problem = await _relay(host, remote, changes, relays, send_all, progress.log)
        else:
            results, problem = await send_all()
        again = [
            change
            for change, why in zip(changes, results, strict=False)
            if why == SENT_CHANGED and change["path"] not in whole
        ]
        if again and problem is None:  # what another host had, or was kept, was not that
            more, problem = await send(again, {})
            new = {change["path"]: why for change, why in zip(again, more, strict=False)}
            paths = [change["path"] for change in changes]
            results = [new.get(path, why) for path, why in zip(paths, results, strict=True)]
        _record_results(outcome, changes, results, base)
        if problem is not None:
            await asyncio.to_thread(_save, bases, base, *key(outcome.host))
            raise problem
        return base

    loop = asyncio.get_running_loop()
    outcomes = await gather_or_cancel([on_host(host) for host in hosts])
    progress.done("copy")
    return SyncOutcome(hosts=outcomes, skipped=skipped, files=len(tree))


async def _relay(
    host: StreamingHost,
    remote: RemoteProject,
    changes: list[dict],
    relays: Relays[StreamingHost],
    send_all: Callable[[str], Awaitable[Received]],
    log: Callable[[str], None],
) -> Received:
    """Has changes carried out that hosts get from each other, where they reach each other."""
    list_id = digest_of(changes)
    relay = relays.of(list_id)
    async with relay.source(host) as source:
        received = None
        if source is not None:
            fetched = await remote.fetch(source.pod_command(COMMAND), changes, list_id)
            if isinstance(fetched, str):
                why = f" ({fetched})" if fetched else ""
                log(
                    f"Host {host.host.number} did not get the files from host "
                    f"{source.host.number}{why}. It gets them from this computer."
                )
            else:
                received = fetched
        if received is None:
            received = await send_all(list_id)
            if source is None and await relay.is_waited_for():
                await host.authorize_pod()
        results, problem = received
        if problem is None:
            await relay.add(host)
    if problem is None:
        await relay.leave(host)
    return results, problem


async def pull(
    host: StreamingHost,
    local: LocalProject,
    root: str,
    bases: Bases,
    key: Key,
    options: SyncOptions,
    progress: ProgressReporter,
) -> SyncOutcome:
    """Makes the local folder like the folder *root* of one host, whose failure is in its outcome.

    What is gone there is deleted here only with ``options.delete``, if no one has changed it here.
    """
    progress.begin("read")
    await asyncio.to_thread(local.read_rules)
    outcome = HostOutcome(host=host.host.number)
    skipped: list[list] = []
    tree: dict[str, TreeEntry] = {}
    try:
        async with RemoteProject.open(host, root) as remote:
            try:
                tree, skipped = await _walk(remote, outcome, local, root)
                base = bases.load(Base, *key)  # now no other process copies to it
                await asyncio.to_thread(_add_sent, bases, base, tree, *key)
                here = await asyncio.to_thread(local.look_up, sorted({*tree, *base.states}))
                kept = await _kept(remote, options, skipped, set(base.states) - set(tree))
                plan = make_plan(
                    _states(tree),
                    _states(here),
                    base.states,
                    delete=options.delete,
                    overwrite=options.overwrite,
                    within=lambda path: (
                        path not in kept
                        and options.includes(path)
                        and is_safe(path)
                        and not local.leaves_out(path)
                    ),
                )
                base.states = _note(outcome, plan, here, tree)
                progress.done("read")
                progress.begin("copy")
                if options.dry_run or not (plan.write or plan.delete):
                    _foresee(outcome, plan, tree)
                else:
                    await _fetch(remote, local, outcome, plan, tree, here, base, progress)
                await asyncio.to_thread(bases.save, base, *key)
                progress.done("copy")
            finally:
                outcome.transferred = remote.sent + remote.received
    except TPUError as error:
        outcome.problem = error
    return SyncOutcome(hosts=[outcome], skipped=skipped, files=len(tree))


async def _walk(
    remote: RemoteProject, outcome: HostOutcome, local: LocalProject, root: str
) -> tuple[dict[str, TreeEntry], list[list]]:
    """What the host has. It may be anybody's: what we would not ask for is left out."""
    walked = await remote.walk(local.rules.rules, local.limits)
    if walked.too_large:
        raise too_large(f"{root} on host {outcome.host}", walked.too_large, local.limits)
    outcome.root = walked.root
    tree = {
        path: entry
        for path, entry in walked.entries().items()
        if is_safe(path) and not entry.state.startswith("other ") and not local.leaves_out(path)
    }
    return tree, [list(entry) for entry in walked.skipped]


async def _kept(
    remote: RemoteProject, options: SyncOptions, skipped: list[list], gone: set[str]
) -> set[str]:
    """Those of *gone* that the host has all the same: they are ignored or skipped now."""
    if not gone or not options.delete:
        return set()
    tree_entries, _ = await remote.look_up(sorted(gone), "")
    return {path for path in gone if path in tree_entries or is_skipped(skipped, path)}


async def _fetch(
    remote: RemoteProject,
    local: LocalProject,
    outcome: HostOutcome,
    plan: SyncPlan,
    tree: Tree,
    here: Tree,
    base: Base,
    progress: ProgressReporter,
) -> None:
    changes = _changes(plan, tree, here)
    known = await asyncio.to_thread(local.known, changes)
    total = sum(tree[path].size for path in plan.write) or 1
    loop = asyncio.get_running_loop()
    done = 0

    def came(size: int) -> None:
        nonlocal done
        done += size
        loop.call_soon_threadsafe(progress.part, "copy", min(done / total, 0.99))

    await remote.send(changes, known)
    results = await local.receive(remote, changes, came)
    _record_results(outcome, changes, results, base)


# ---- what both directions share ------------------------------------------------------------------


def _add_sent(bases: Bases, base: Base, there: Tree, *key: str) -> None:
    """Adds to *base* what is *there* since a process that has ended early has sent it."""
    if sent := bases.load(Sent, *key).states:
        arrived = there.keys() & sent.keys()
        base.states |= {path: sent[path] for path in arrived if there[path].state == sent[path]}
        _save(bases, base, *key)


def _save(bases: Bases, base: Base, *key: str) -> None:
    bases.save(base, *key)
    bases.remove(Sent, *key)


def _states(tree: Tree) -> dict[str, str]:
    return {path: entry.state for path, entry in tree.items()}


def _existing(local: LocalProject, skipped: list[list], gone: set[str]) -> set[str]:
    """Those of *gone* that are here all the same: they are ignored or skipped now."""
    return {path for path in gone if local.exists(path) or is_skipped(skipped, path)}


def _worth_delta(source: Tree, target: Tree, path: str) -> bool:
    old = target.get(path)
    return (
        old is not None
        and has_content(old.state)
        and has_content(source[path].state)
        and min(old.size, source[path].size) >= DELTA_FROM
    )


def _changes(plan: SyncPlan, source: Tree, target: Tree) -> list[dict[str, Any]]:
    """As `on_host.files.changes` has them; first what is deleted, which may give way to a folder of
    its name.
    """
    return [
        {
            "path": path,
            "state": source[path].state if path in source else None,
            "size": source[path].size if path in source else 0,
            "expected": target[path].state if path in target else None,
        }
        for path in (*plan.delete, *plan.write)
    ]


def _note(outcome: HostOutcome, plan: SyncPlan, here: Tree, there: Tree) -> dict[str, str]:
    """Puts into *outcome* what the plan leaves as it is; returns the states that are agreed."""
    outcome.conflicts = [
        (conflict, here.get(conflict.path), there.get(conflict.path)) for conflict in plan.conflicts
    ]
    outcome.newer = plan.newer
    return plan.agreed


def _foresee(outcome: HostOutcome, plan: SyncPlan, source: Tree) -> None:
    outcome.written, outcome.deleted = plan.write, plan.delete
    outcome.size = sum(source[path].size for path in plan.write)


def _record_results(
    outcome: HostOutcome, changes: list[dict], results: list[str | None], base: Base
) -> None:
    """Puts what was carried out into *outcome* and *base*."""
    for change, error in zip(changes, results, strict=False):  # it may have ended early
        path, state = change["path"], change["state"]
        if error is not None:
            outcome.refused.append((path, error))
        elif state is not None:
            outcome.written.append(path)
            outcome.size += change["size"]
            base.states[path] = state
        else:
            outcome.deleted.append(path)
            base.states.pop(path, None)
