"""Findings about a host in addition to its chips: disks, clock, buckets, and the ports of a pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...errors import TPUError
from .facts import ClockOffset, Disk, ExpectedTPU, HostFacts, ServiceAccount
from .findings import Finding, Report

#: Ports through which the hosts of a pod start a program together. Google's own firewall rule opens
#: some of 8470-8476; JAX 0.8.1 and later uses 8482.
COORDINATOR_PORTS = (8470, 8471, 8474, 8476, 8482)
#: Free bytes of a disk below which nothing works, and below which it is soon full.
NO_SPACE, LITTLE_SPACE = 2**30, 5 * 2**30
#: Bytes of libtpu's logs that are worth a line.
MANY_LOGS = 2**30
#: Seconds by which a clock may be wrong; beyond the second, requests to Google are refused.
CLOCK_OFF, CLOCK_WRONG = 5.0, 240.0


def disks(report: Report, facts: HostFacts) -> Iterator[Finding]:
    """Free space, and libtpu's logs, which nothing deletes."""
    by_total: dict[int, Disk] = {}  # two folders may be on one disk
    for disk in facts.disks:
        by_total.setdefault(disk.total, disk)
    for disk in by_total.values():
        text = f"{_gib(disk.free)} of {_gib(disk.total)} are free in {disk.path}."
        folders = "~/* ~/.cache" if disk.path != "/tmp" else "/tmp/*"
        used = report.ssh(f"du -sh {folders}")
        hint = f"Delete files there. This shows what uses the space: {used}"
        if disk.free < NO_SPACE:
            yield report.problem("disk", text, hint)
        elif disk.free < LITTLE_SPACE:
            yield report.warning("disk", text, hint)
        else:
            yield report.ok("disk", text)
    if facts.logs > MANY_LOGS:
        yield report.warning(
            "disk",
            f"libtpu's logs in /tmp/tpu_logs take {_gib(facts.logs)}.",
            f"Delete them: {report.ssh('sudo rm -r /tmp/tpu_logs')}. "
            "TPU_LOG_DIR=disabled, set before JAX starts, turns them off.",
        )


def clock(report: Report, offset: ClockOffset, everywhere: bool) -> Finding:
    """Whether it agrees with this computer's. *everywhere*: those of all hosts are wrong."""
    wrong = surely_off(offset)
    if abs(wrong) < CLOCK_OFF:
        bound = max(abs(offset.least), abs(offset.most))
        return report.ok("clock", f"The clock agrees with this computer's to {bound:.1g} s.")
    way = "ahead of" if wrong > 0 else "behind"
    text = f"The clock is {abs(wrong):.0f} s {way} this computer's."
    restart = "sudo systemctl restart chrony || sudo systemctl restart systemd-timesyncd"
    hint = f"Check which one is wrong. This sets the host's: {report.ssh(restart)}"
    if everywhere:
        hint = "It is the same on all hosts, so this computer's clock is probably wrong: set it."
    if abs(wrong) < CLOCK_WRONG:
        return report.warning("clock", text, hint)
    refused = "Google refuses requests from a host with such a clock."
    return report.problem("clock", f"{text} {refused}", hint)


def surely_off(offset: ClockOffset) -> float:
    """By how many seconds a clock is ahead (below 0: behind) at the least."""
    return max(offset.least, 0.0) + min(offset.most, 0.0)


def storage(report: Report, account: ServiceAccount) -> Finding:
    """Whether the VM's own account may read and write buckets."""
    scopes = {scope.rpartition("/")[2] for scope in account.scopes}
    hint = (
        "Create the TPU with a service account that has the scope cloud-platform, or run "
        "`gcloud auth application-default login` on the host."
    )
    if not account.email:
        return report.warning(
            "storage", "The host has no service account, so it can't read buckets.", hint
        )
    if scopes & {"cloud-platform", "devstorage.full_control", "devstorage.read_write"}:
        return report.ok("storage", f"Reads and writes buckets as {account.email}, if it may.")
    if "devstorage.read_only" in scopes:
        return report.warning(
            "storage", f"Only reads buckets (as {account.email}): its scope allows no more.", hint
        )
    return report.warning(
        "storage",
        f"{account.email} has no scope for Cloud Storage, so buckets can't be read.",
        hint,
    )


def ports(report: Report, reached: Sequence[int] | TPUError, expected: ExpectedTPU) -> Finding:
    """Those of host 0 that the host reaches."""
    if isinstance(reached, TPUError):
        return report.unknown(
            "ports", f"Ports of host 0 were not checked: {reached.message}", reached.hint
        )
    missing = [port for port in COORDINATOR_PORTS if port not in reached]
    if not missing:
        return report.ok("ports", "Reaches the ports of host 0 through which JAX starts a pod.")
    hint = "Allow TCP 8470-8482 between the hosts in their firewall."
    if expected.zone:
        setup = f"jupyter tpu network setup {expected.network} --zone {expected.zone}"
        hint = f"Let the hosts of its network reach each other: {setup}"
    if missing == [8482]:
        return report.warning(
            "ports",
            "Does not reach port 8482 of host 0, which JAX uses since 0.8.1.",
            f"{hint} Or set coordinator_address to HOST_0:8476 in jax.distributed.initialize.",
        )
    numbers = ", ".join(map(str, missing))
    return report.problem(
        "ports",
        f"Does not reach {'port' if len(missing) == 1 else 'ports'} {numbers} of host 0, so "
        "programs on all hosts can't start.",
        hint,
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.{0 if size >= 10 << 30 else 1}f} GiB"
