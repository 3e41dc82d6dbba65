"""All findings about a TPU's hosts: each is reached, checked, and compared with the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET, structs

from ...errors import Reason, TPUError
from ...wording import count
from ..torch_verification import WITHOUT_CHIPS, torch_fallback, torch_versions
from ..verification import (
    Hardware,
    HostCheck,
    chip_limits,
    chips_in_use,
    differences_between,
    fallback_cause,
    first_line,
)
from .chips import assignments, chips, holders, lock, login, where_set
from .facts import ExaminedHost, ExpectedTPU, HostFacts
from .findings import Finding, Report
from .machine import CLOCK_OFF, clock, disks, ports, storage, surely_off


def diagnose(hosts: Sequence[ExaminedHost], expected: ExpectedTPU) -> list[Finding]:
    """All findings, host by host; each host has at least one."""
    some = any(isinstance(host.facts, HostFacts) for host in hosts)
    return [
        finding
        for host in hosts
        for finding in (
            _host(host.facts, host, hosts, expected)
            if isinstance(host.facts, HostFacts)
            else [_unreached(host.facts, host.host, some, expected)]
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
    return Report(host).problem("connection", f"The host was not checked: {error.message}", hint)


def _host(
    facts: HostFacts, examined: ExaminedHost, hosts: Sequence[ExaminedHost], expected: ExpectedTPU
) -> Iterator[Finding]:
    report = Report(examined.host, expected.name)
    yield report.ok("connection", "Connected.")
    if examined.agent is not None:
        yield report.problem("agent", examined.agent.message, examined.agent.hint)
    else:
        yield report.ok("agent", "The daemon answers.")
    yield chips(report, facts.hardware, expected)
    yield from holders(report, facts.hardware, examined.owners)
    yield from lock(report, facts.hardware)
    yield from login(report, facts.hardware, expected)
    yield from _environments(report, facts, hosts[0], expected)
    yield from disks(report, facts)
    if examined.clock is not None:
        yield clock(report, examined.clock, _clocks_agree(hosts))
    if facts.account is not None:
        yield storage(report, facts.account)
    if examined.ports is not None:
        yield ports(report, examined.ports, expected)


def _clocks_agree(hosts: Sequence[ExaminedHost]) -> bool:
    """Whether the clocks of several hosts are wrong, and all in the same way."""
    wrong = [surely_off(host.clock) for host in hosts if host.clock is not None]
    return len(wrong) > 1 and (min(wrong) > CLOCK_OFF or max(wrong) < -CLOCK_OFF)


def differences(hosts: Sequence[ExaminedHost], environment: str) -> dict[int, str | None]:
    """How the versions in an environment differ from host 0's, by host: "" if they are the same,
    None if that is not known.
    """
    checks = [
        None if isinstance(host.facts, TPUError) else host.facts.environments.get(environment)
        for host in hosts
    ]
    known = [None if check is None or check.error else check for check in checks]
    first = known[0]
    return {
        examined_host.host: None
        if first is None or check is None
        else differences_between(first, check)
        for examined_host, check in zip(hosts, known, strict=True)
    }


def _environments(
    report: Report, facts: HostFacts, first: ExaminedHost, expected: ExpectedTPU
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
    report: Report, name: str, check: HostCheck, hardware: Hardware, expected: ExpectedTPU
) -> Finding:
    connect = f"jupyter tpu connect {expected.name} --env {name}"
    if check.error is not None:
        return report.problem("jax", f"{name}: {check.error}", f"Create it again: {connect}")
    if check.torch and not check.jax:
        return _torch(report, name, check, hardware, expected)
    if not check.jax:  # a Python that was found there
        return report.unknown("jax", f"{name}: JAX is not installed.", "Install it to use the TPU.")
    versions = f"JAX {check.jax}" + (f", libtpu {check.libtpu}" if check.libtpu else "")
    known = structs.replace(check, hardware=hardware)
    started = check.platform is not UNSET or check.backend_error
    if not started or (not expected.without_chips and chips_in_use(known)):
        was = "was started, and says that" if started else "was not started, because"
        return report.unknown(
            "jax",
            f"{name}: {versions}. JAX {was} the chips are in use.",
            "Check again when they are free.",
        )
    if expected.without_chips and check.platform is UNSET:
        return report.problem("jax", f"{name}: {first_line(check.backend_error)}", connect)
    add = f"jupyter tpu env add {expected.name} --env {name} 'jax[tpu]=={check.jax}'"
    if not expected.without_chips and check.platform != "tpu":
        why = fallback_cause(known)
        hint = where_set(report, why.variable) if why.variable else add if why.package else why.hint
        return report.problem("jax", f"{name}: JAX does not use the TPU: {why.cause}.", hint)
    want = expected.devices_per_host
    if want and check.devices != want:
        hint = "Restart the TPU. If that does not help, delete it and create it again."
        if limits := chip_limits(hardware)[1]:
            hint = f"Logins set {assignments(limits)}. {where_set(report, *limits)}"
        return report.problem(
            "jax",
            f"{name}: JAX sees {check.devices} of {count(want, 'device')} ({versions}).",
            hint,
        )
    if check.libtpu and not check.libtpu_fits:
        return report.warning(
            "jax",
            f"{name}: JAX {check.jax} asks for libtpu{check.libtpu_wanted}, and {check.libtpu} is "
            "installed.",
            add,
        )
    devices = count(int(check.devices or 0), f"{check.platform} device")
    return report.ok("jax", f"{name}: {versions}, {devices}.")


def _torch(
    report: Report, name: str, check: HostCheck, hardware: Hardware, expected: ExpectedTPU
) -> Finding:
    versions, known = torch_versions(check), structs.replace(check, hardware=hardware)
    started = check.platform is not UNSET or check.backend_error
    if not started or (not expected.without_chips and chips_in_use(known)):
        return report.unknown(
            "torch",
            f"{name}: {versions}. TorchTPU was not checked, because the chips are in use.",
            "Check again when they are free.",
        )
    if check.cuda or check.platform is UNSET:
        why = f"PyTorch is for CUDA {check.cuda}" if check.cuda else first_line(check.backend_error)
        hint = f"Create it again: jupyter tpu env delete {expected.name} {name}"
        return report.problem("torch", f"{name}: {why}.", hint)
    if expected.without_chips:
        return report.ok("torch", f"{name}: {versions}; {WITHOUT_CHIPS}.")
    if check.platform != "tpu":
        why_not = torch_fallback(known)
        return report.problem(
            "torch", f"{name}: PyTorch does not use the TPU: {why_not.cause}.", why_not.hint
        )
    devices = count(int(check.devices or 0), "TPU device")
    return report.ok("torch", f"{name}: {versions}, {devices}.")
