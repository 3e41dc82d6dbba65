"""The packages of an environment that is there: listed, changed, and made the same on all hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..concurrency import finish_on_hosts
from ..links.remote_host import RemoteHost
from ..on_host.environments.packages import REQUIRED, merge, name_of
from ..progress import ProgressReporter, StepPlan
from .host_answers import ENVIRONMENTS
from .models import InstalledPackage, Locked, SyncedPackages

CHANGE = StepPlan("change", "Install and remove packages", 10, all_hosts=False)
SYNC = StepPlan("sync", "Install the same on all hosts", 10)
REMOVE = StepPlan("remove", "Remove the environment", 5)
__all__ = [
    "REQUIRED",
    "change",
    "installed",
    "lock",
    "merge",
    "name_of",
    "remove",
    "sync",
    "uv_path",
]

#: Seconds that a change may take; some packages are built.
_LONGEST_CHANGE_SECONDS = 7300


async def installed(host: RemoteHost, name: str) -> list[InstalledPackage]:
    """What is installed in an environment, by name."""
    installed_packages: list[InstalledPackage] = await ENVIRONMENTS.call(
        host, "list_packages", log=_ignore, timeout=60, name=name
    )
    return installed_packages


async def lock(host: RemoteHost, name: str) -> str:
    """The exact versions of what is installed, as a requirements file."""
    uv = await uv_path(host, _ignore)
    answer: Locked = await ENVIRONMENTS.call(
        host, "lock_packages", log=_ignore, timeout=60, uv=uv, name=name
    )
    return answer.lock


async def change(
    hosts: Sequence[RemoteHost],
    name: str,
    add: Sequence[str],
    remove: Sequence[str],
    reporter: ProgressReporter,
) -> SyncedPackages:
    """Adds and removes packages on host 0; the others get what is installed there then.

    Raises TPUError: ENVIRONMENT, INVALID (a package to remove is not installed), DISK_FULL,
    UNREACHABLE, TIMEOUT. It can be repeated.
    """
    reporter.begin("change")
    uv = await uv_path(hosts[0], reporter.log)
    await ENVIRONMENTS.call(
        hosts[0], "change_packages", log=reporter.log, timeout=_LONGEST_CHANGE_SECONDS,
        uv=uv, name=name, add=add, remove=remove,
    )  # fmt: skip
    reporter.done("change")
    return await sync(hosts, name, reporter)


async def sync(
    hosts: Sequence[RemoteHost], name: str, reporter: ProgressReporter
) -> SyncedPackages:
    """Gives the other hosts what is installed on host 0, which is returned."""
    reporter.begin("sync")
    uv = await uv_path(hosts[0], reporter.log)
    answer: Locked = await ENVIRONMENTS.call(
        hosts[0],
        "lock_packages",
        log=reporter.log,
        timeout=_LONGEST_CHANGE_SECONDS,
        uv=uv,
        name=name,
    )
    reporter.host_done("sync")  # host 0 itself
    lock, requested = answer.lock, answer.requested

    async def on_host(host: RemoteHost) -> None:
        await ENVIRONMENTS.call(
            host, "sync_packages", log=reporter.log, timeout=_LONGEST_CHANGE_SECONDS,
            uv=await uv_path(host, reporter.log), name=name, lock=lock, packages=requested.packages,
        )  # fmt: skip
        reporter.host_done("sync")

    others = hosts[1:]
    await finish_on_hosts({other.host.number: on_host(other) for other in others}, len(hosts))
    reporter.done("sync", "done" if others else "skipped")
    return SyncedPackages(requested=requested, lock=lock)


async def remove(hosts: Sequence[RemoteHost], name: str, reporter: ProgressReporter) -> None:
    """Removes an environment from all hosts; it may be incomplete, or not be there."""
    reporter.begin("remove")

    async def on_host(host: RemoteHost) -> None:
        await ENVIRONMENTS.call(host, "remove", log=reporter.log, timeout=300, name=name)
        reporter.host_done("remove")

    await finish_on_hosts({host.host.number: on_host(host) for host in hosts}, len(hosts))
    reporter.done("remove")


async def uv_path(host: RemoteHost, log: Callable[[str], None]) -> str:
    """uv's path on a host, where it is downloaded if need be."""
    answer = await ENVIRONMENTS.call(host, "get_uv", log=log, timeout=900)
    return str(answer["uv"])


def _ignore(line: str) -> None:
    pass
