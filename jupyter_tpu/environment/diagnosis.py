"""What the facts about a TPU's hosts mean: findings, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import UNSET, Struct

from ..errors import Reason, TPUError
from ..wording import count
from .verification import (
    Hardware,
    HostCheck,
    chip_limits,
    chips_in_use,
    differences_between,
    fallback_cause,
    first_line,
)

#: Ports through which the hosts of a pod start a program together. Google's own firewall rule opens
#: some of 8470-8476; JAX 0.8.1 and later uses 8482.
COORDINATOR_PORTS = (8470, 8471, 8474, 8476, 8482)
#: Free bytes of a disk below which nothing works, and below which it is soon full.
NO_SPACE, LITTLE_SPACE = 2**30, 5 * 2**30
#: Bytes of libtpu's logs that are worth a line.
MANY_LOGS = 2**30
#: Seconds by which a clock may be wrong; beyond the second, requests to Google are refused.
CLOCK_OFF, CLOCK_WRONG = 5.0, 240.0


class Finding(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    check: Literal[
        "connection", "agent", "chips", "holders", "lock", "login", "jax", "versions", "disk",
        "clock", "ports", "storage", "project", "api", "permission", "firewall", "key", "type",
        "image", "quota", "variables", "os-login",
    ]  # fmt: skip
    #: None: of no host, where there is no TPU yet.
    host: int | None = None
    state: Literal["ok", "warning", "problem", "unknown"]
    message: str
    #: What to do; "" if nothing has to be done.
    hint: str = ""


class Disk(Struct, frozen=True, kw_only=True):
    path: str
    free: int  # bytes
    total: int


class ServiceAccount(Struct, frozen=True, kw_only=True):
    """The account of a VM: email is "" if it has none."""

    email: str
    scopes: list[str]


class HostFacts(Struct, frozen=True, kw_only=True):
    """What a host says about itself; see ``on_host.doctor.examine``."""

    hardware: Hardware
    disks: list[Disk]
    logs: int  # bytes in /tmp/tpu_logs
    environments: dict[str, HostCheck]
    account: ServiceAccount | None = None  # None: not known


@dataclass(kw_only=True)
class ExaminedHost:
    """One host, and what is known of it. An error says why something is not known."""

    host: int
    facts: HostFacts | TPUError
    agent: TPUError | None = None  # why the agent does not answer
    owners: dict[int, str] = field(default_factory=dict)  # "The job 1a2b" that has a process
    clock: float | None = None  # seconds ahead of this computer's
    ports: Sequence[int] | TPUError | None = None  # of host 0, that it reaches


class ExpectedTPU(Struct, frozen=True, kw_only=True):
    """What the hosts must have, according to the catalog; 0 where it is not known."""

    name: str
    emulated: bool
    #: A machine that has no chips, and is used all the same.
    cpu_only: bool = False
    chips_per_host: int = 0
    devices_per_host: int = 0

    @property
    def without_chips(self) -> bool:
        return self.emulated or self.cpu_only


def diagnose(hosts: Sequence[ExaminedHost], expected: ExpectedTPU) -> list[Finding]:
    """All findings, host by host; each host has at least one."""
    some = any(isinstance(each.facts, HostFacts) for each in hosts)
    return [
        finding
        for each in hosts
        for finding in (
            _host(each.facts, each, hosts[0], expected)
            if isinstance(each.facts, HostFacts)
            else [_unreached(each.facts, each.host, some, expected)]
        )
    ]


def _unreached(error: TPUError, host: int, others: bool, expected: ExpectedTPU) -> Finding:
    hint = error.hint
    if others and error.reason is Reason.UNREACHABLE:
        hint = (
            "Other hosts of the TPU answer, so its firewall allows SSH. Check again in a few "
            f"minutes: jupyter tpu doctor {expected.name}. If that does not help, delete the TPU "
            f"(jupyter tpu delete {expected.name}) and create it again."
        )
    return _Report(host).problem("connection", f"The host was not checked: {error.message}", hint)


def _host(
    facts: HostFacts, each: ExaminedHost, first: ExaminedHost, expected: ExpectedTPU
) -> Iterator[Finding]:
    report = _Report(each.host)
    yield report.ok("connection", "Connected.")
    if each.agent is not None:
        yield report.problem("agent", each.agent.message, each.agent.hint)
    else:
        yield report.ok("agent", "The agent answers.")
    yield _chips(report, facts.hardware, expected)
    yield from _holders(report, facts.hardware, each.owners, expected)
    yield from _login(report, facts.hardware, expected)
    yield from _environments(report, facts, first, expected)
    yield from _disks(report, facts, expected)
    if each.clock is not None:
        yield _clock(report, each.clock, expected)
    if facts.account is not None:
        yield _storage(report, facts.account)
    if each.ports is not None:
        yield _ports(report, each.ports)


def differences(hosts: Sequence[ExaminedHost], environment: str) -> dict[int, str | None]:
    """How the versions in an environment differ from host 0's, by host: "" if they are the same,
    None if that is not known.
    """
    checks = [
        None if isinstance(each.facts, TPUError) else each.facts.environments.get(environment)
        for each in hosts
    ]
    known = [None if check is None or check.error else check for check in checks]
    first = known[0]
    return {
        each.host: None if first is None or check is None else differences_between(first, check)
        for each, check in zip(hosts, known, strict=True)
    }


class _Report:
    """Makes the findings of one host."""

    def __init__(self, host: int) -> None:
        self.host = host

    def ok(self, check: str, message: str) -> Finding:
        return self._make(check, "ok", message, "")

    def warning(self, check: str, message: str, hint: str) -> Finding:
        return self._make(check, "warning", message, hint)

    def problem(self, check: str, message: str, hint: str) -> Finding:
        return self._make(check, "problem", message, hint)

    def unknown(self, check: str, message: str, hint: str) -> Finding:
        return self._make(check, "unknown", message, hint)

    def _make(self, check: str, state: str, message: str, hint: str) -> Finding:
        return Finding(check=check, host=self.host, state=state, message=message, hint=hint)  # type: ignore[arg-type]


def _chips(report: _Report, found: Hardware, expected: ExpectedTPU) -> Finding:
    if found.emulated or expected.emulated:
        return report.ok("chips", "Emulated: JAX sees simulated devices instead of TPU chips.")
    have, want = len(found.chips), expected.chips_per_host
    if expected.cpu_only and not have:
        return report.ok("chips", "The machine has no TPU chips: JAX uses its CPU.")
    again = (
        "Restart the TPU. If that does not help, delete it and create it again, with its type's "
        "default runtime version."
    )
    if not have or (want and have < want):
        number = f"{have} of its {want}" if want else "no"
        return report.problem("chips", f"The host has {number} TPU chips.", again)
    if len(found.device_files) < have:
        return report.problem(
            "chips",
            f"{have - len(found.device_files)} of {count(have, 'chip')} have no device file. "
            "The runtime version may have no driver for them.",
            again,
        )
    kind = next(filter(None, found.chips), "")
    name = f"{kind} chip" if kind else "TPU chip"
    return report.ok("chips", f"{count(have, name)} with device files.")


def _holders(
    report: _Report, found: Hardware, owners: dict[int, str], expected: ExpectedTPU
) -> Iterator[Finding]:
    lock = found.lock
    for holder in found.holders:
        if holder.pid in owners:
            yield report.ok(
                "holders", f"{owners[holder.pid]} uses the chips (process {holder.pid})."
            )
        else:
            yield report.problem(
                "holders",
                f"The chips are in use by {holder}.",
                f"To end it: jupyter tpu chips free {expected.name}{_on(report.host)}",
            )
    if not found.holders:
        yield report.ok("holders", "No process uses the chips.")
    if lock.owner and not lock.mine and not lock.held:
        root = " With fs.protected_regular, root can't use it, either." if lock.protected else ""
        yield report.problem(
            "lock",
            f"libtpu's lock file belongs to {lock.owner}, so JAX says that the TPU is in use.{root}"
            " No process holds the lock.",
            f"Delete the file: {_ssh(report, expected)} 'sudo rm /tmp/libtpu_lockfile'",
        )
    if found.variables.get("ALLOW_MULTIPLE_LIBTPU_LOAD") in ("1", "true"):
        yield report.warning(
            "lock",
            "ALLOW_MULTIPLE_LIBTPU_LOAD is set, so programs don't see that the chips are in use.",
            "Remove it from the files of the login on the host.",
        )


def _login(report: _Report, found: Hardware, expected: ExpectedTPU) -> Iterator[Finding]:
    if "tcmalloc" in found.variables.get("LD_PRELOAD", ""):
        yield report.ok(
            "login",
            "Logins preload TCMalloc (LD_PRELOAD), which breaks some libraries. Kernels start "
            "without it.",
        )
    platforms = found.variables.get("JAX_PLATFORMS", "")
    if platforms and "tpu" not in platforms.split(",") and not expected.without_chips:
        yield report.problem(
            "login",
            f"Logins set JAX_PLATFORMS={platforms}, so JAX does not use the TPU.",
            "Remove it from /etc/environment, /etc/profile.d, ~/.profile and ~/.bashrc there.",
        )
    fewest, limits = chip_limits(found)
    if limits:
        have = len(found.chips) or len(found.device_files)
        yield report.warning(
            "login",
            f"Logins set {_assignments(limits)}, so a program sees {fewest} of the host's "
            f"{count(have, 'chip')}.",
            "Remove them from the files of the login there. Set them only for single programs that "
            "share the host.",
        )


def _assignments(variables: Mapping[str, str]) -> str:
    return " and ".join(f"{name}={value}" for name, value in variables.items())


def _environments(
    report: _Report, facts: HostFacts, first: ExaminedHost, expected: ExpectedTPU
) -> Iterator[Finding]:
    if not facts.environments:
        yield report.unknown(
            "jax",
            "There is no environment, so JAX was not started.",
            f"Create one: jupyter tpu connect {expected.name}",
        )
    for name, check in facts.environments.items():
        yield _jax(report, name, check, facts.hardware, expected)
        if report.host == first.host or isinstance(first.facts, TPUError):
            continue
        theirs = first.facts.environments.get(name)
        if theirs is None or theirs.error or check.error:
            continue
        if different := differences_between(theirs, check):
            yield report.problem(
                "versions",
                f"{name} has other versions than on host {first.host}: {different}.",
                f"Give all hosts the same: jupyter tpu env sync {expected.name} {name}",
            )
        else:
            yield report.ok("versions", f"{name} has the versions of host {first.host}.")


def _jax(
    report: _Report, name: str, check: HostCheck, found: Hardware, expected: ExpectedTPU
) -> Finding:
    connect = f"jupyter tpu connect {expected.name} --env {name}"
    if check.error is not None:
        return report.problem("jax", f"{name}: {check.error}", f"Create it again: {connect}")
    if not check.jax:  # a Python that was found there
        return report.unknown("jax", f"{name}: JAX is not installed.", "Install it to use the TPU.")
    versions = f"JAX {check.jax}" + (f", libtpu {check.libtpu}" if check.libtpu else "")
    known = HostCheck(
        jax=check.jax,
        packages=check.packages,
        platform=check.platform,
        backend_error=check.backend_error,
        libtpu_wanted=check.libtpu_wanted,
        libtpu_fits=check.libtpu_fits,
        hardware=found,
    )
    if (check.platform is UNSET and not check.backend_error) or (
        not expected.without_chips and chips_in_use(known)
    ):
        return report.unknown(
            "jax",
            f"{name}: {versions}. JAX was not started, because the chips are in use.",
            "Check again when they are free.",
        )
    if expected.without_chips and check.platform is UNSET:
        return report.problem("jax", f"{name}: {first_line(check.backend_error)}", connect)
    if not expected.without_chips and check.platform != "tpu":
        cause, hint = fallback_cause(known)
        return report.problem("jax", f"{name}: JAX does not use the TPU: {cause}.", hint)
    want = expected.devices_per_host
    if want and check.devices != want:
        hint = "Restart the TPU. If that does not help, delete it and create it again."
        if limits := chip_limits(found)[1]:
            hint = f"Logins set {_assignments(limits)}, which limits it. Remove that there."
        return report.problem(
            "jax", f"{name}: JAX sees {check.devices} of {want} devices ({versions}).", hint
        )
    if check.libtpu and not check.libtpu_fits:
        return report.warning(
            "jax",
            f"{name}: JAX {check.jax} asks for libtpu{check.libtpu_wanted}, and {check.libtpu} is "
            "installed.",
            f"jupyter tpu env add {expected.name} --env {name} 'jax[tpu]=={check.jax}'",
        )
    devices = count(int(check.devices or 0), f"{check.platform} device")
    return report.ok("jax", f"{name}: {versions}, {devices}.")


def _disks(report: _Report, facts: HostFacts, expected: ExpectedTPU) -> Iterator[Finding]:
    disks: dict[int, Disk] = {}  # two folders may be on one disk
    for each in facts.disks:
        disks.setdefault(each.total, each)
    for disk in disks.values():
        text = f"{_gib(disk.free)} of {_gib(disk.total)} are free in {disk.path}."
        folders = "~/* ~/.cache" if disk.path != "/tmp" else "/tmp/*"
        hint = (
            "Delete files there. This shows what uses the space: "
            f"{_ssh(report, expected)} 'du -sh {folders}'"
        )
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
            f"Delete them: {_ssh(report, expected)} 'sudo rm -r /tmp/tpu_logs'. "
            "TPU_LOG_DIR=disabled, set before JAX starts, turns them off.",
        )


def _clock(report: _Report, ahead: float, expected: ExpectedTPU) -> Finding:
    if abs(ahead) < CLOCK_OFF:
        return report.ok("clock", "The clock agrees with this computer's.")
    way = "ahead of" if ahead > 0 else "behind"
    text = f"The clock is {abs(ahead):.0f} s {way} this computer's."
    hint = (
        "Check which one is wrong. This sets the host's: "
        f"{_ssh(report, expected)} 'sudo systemctl restart chrony'"
    )
    if abs(ahead) < CLOCK_WRONG:
        return report.warning("clock", text, hint)
    return report.problem("clock", f"{text} Google refuses requests of such clocks.", hint)


def _storage(report: _Report, account: ServiceAccount) -> Finding:
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


def _ports(report: _Report, reached: Sequence[int] | TPUError) -> Finding:
    if isinstance(reached, TPUError):
        return report.unknown(
            "ports", f"Ports of host 0 were not checked: {reached.message}", reached.hint
        )
    missing = [port for port in COORDINATOR_PORTS if port not in reached]
    if not missing:
        return report.ok("ports", "Reaches the ports of host 0 through which JAX starts a pod.")
    numbers = ", ".join(map(str, missing))
    if missing == [8482]:
        return report.warning(
            "ports",
            "Does not reach port 8482 of host 0, which JAX uses since 0.8.1.",
            "Set coordinator_address to HOST_0:8476 in jax.distributed.initialize.",
        )
    return report.problem(
        "ports",
        f"Does not reach {'port' if len(missing) == 1 else 'ports'} {numbers} of host 0, so "
        "programs on all hosts can't start.",
        "Allow TCP 8470-8482 between the hosts in the firewall of their network.",
    )


def _ssh(report: _Report, expected: ExpectedTPU) -> str:
    """What runs the command that follows, in quotes, on the host."""
    return f"jupyter tpu ssh {expected.name}{_on(report.host)} --command"


def _on(host: int) -> str:
    return f" --worker {host}" if host else ""


def _gib(size: int) -> str:
    return f"{size / 2**30:.{0 if size >= 10 << 30 else 1}f} GiB"
