"""Findings about a host's chips: what uses them, libtpu's lock, and how logins limit them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...wording import count
from ..verification import CREATE_AGAIN, Hardware, HoldingProcess, chip_limits
from .facts import ExpectedTPU
from .findings import Finding, Report

#: Where the variables of a login may be set.
_LOGIN_FILES = "/etc/environment /etc/profile /etc/profile.d/* ~/.profile ~/.bash_profile ~/.bashrc"


def chips(report: Report, hardware: Hardware, expected: ExpectedTPU) -> Finding:
    """Those on the PCI bus and their device files, compared with the type."""
    if hardware.emulated or expected.emulated:
        return report.ok("chips", "Emulated: JAX sees simulated devices instead of TPU chips.")
    have, want = len(hardware.chips), expected.chips_per_host
    if expected.cpu_only and not have:
        return report.ok("chips", "The machine has no TPU chips: JAX uses its CPU.")
    if not have or (want and have < want):
        number = f"{have} of its {want}" if want else "no"
        return report.problem("chips", f"The host has {number} TPU chips.", CREATE_AGAIN)
    if len(hardware.device_files) < have:
        return report.problem(
            "chips",
            f"{have - len(hardware.device_files)} of {count(have, 'chip')} have no device file. "
            "The runtime version may have no driver for them.",
            CREATE_AGAIN,
        )
    kind = next(filter(None, hardware.chips), "")
    name = f"{kind} chip" if kind else "TPU chip"
    return report.ok("chips", f"{count(have, name)} with device files.")


def holders(report: Report, hardware: Hardware, owners: Mapping[int, str]) -> Iterator[Finding]:
    """What uses the chips. *owners*: what of ours a process belongs to."""
    for holder in hardware.holders:
        if holder.pid in owners:
            yield report.ok(
                "holders", f"{owners[holder.pid]} uses the chips (process {holder.pid})."
            )
        else:
            yield report.problem(
                "holders", f"The chips are in use by {holder}.", _how_to_end(report, holder)
            )
    if hardware.holders and hardware.complete:
        return
    look = f"Look with your password: jupyter tpu ssh {report.tpu}{report.option}, and there: "
    look += "sudo lsof -w /dev/accel* /dev/vfio/*"
    if hardware.lock.held and not hardware.holders:
        yield report.problem(
            "holders", "A process that can't be seen from here holds libtpu's lock.", look
        )
    elif not hardware.complete:
        yield report.unknown(
            "holders",
            f"{'No' if not hardware.holders else 'No other'} process of yours uses the chips. "
            "Those of other users and of containers can't be seen: sudo asks for a password.",
            look,
        )
    else:
        yield report.ok("holders", "No process uses the chips.")


def _how_to_end(report: Report, holder: HoldingProcess) -> str:
    free = _free(report)
    if holder.stop:
        return f"To stop its container: {report.ssh(holder.stop)}. To end only the process: {free}"
    if holder.container:
        return f"To end it: {free}. The container may start it again: stop the container."
    return f"To end it: {free}"


def _free(report: Report) -> str:
    return f"jupyter tpu chips free {report.tpu}{report.option}"


def lock(report: Report, hardware: Hardware) -> Iterator[Finding]:
    """libtpu's lock file, where it is in someone's way though no process holds it."""
    file = hardware.lock
    if file.in_the_way:
        root = ""
        if file.blocks_root:
            root = " Not even root's can use it, because fs.protected_regular is on."
        yield report.problem(
            "lock",
            f"libtpu's lock file is left over from {file.owner}, and your programs can't use it. "
            f"So JAX says that the TPU is in use, though no process holds the lock.{root}",
            f"To delete it, if still no process holds it: {_free(report)}",
        )
    elif file.blocks_root and not file.held:
        yield report.ok(
            "lock",
            "A lock file of libtpu is left over from you. It only blocks root's "
            "programs, because fs.protected_regular is on: there, JAX says that the TPU is in use.",
            f"To delete it: {report.ssh('rm /tmp/libtpu_lockfile')}",
        )
    if hardware.variables.get("ALLOW_MULTIPLE_LIBTPU_LOAD") in ("1", "true"):
        yield report.warning(
            "lock",
            "ALLOW_MULTIPLE_LIBTPU_LOAD is set, so programs don't see that the chips are in use.",
            where_set(report, "ALLOW_MULTIPLE_LIBTPU_LOAD"),
        )


def login(report: Report, hardware: Hardware, expected: ExpectedTPU) -> Iterator[Finding]:
    """What the variables of a login do to JAX and libtpu."""
    preload = hardware.variables.get("LD_PRELOAD", "")
    if hardware.no_preload:
        yield report.warning(
            "login",
            f"Logins preload {hardware.no_preload} (LD_PRELOAD), which does not exist, so each "
            "command prints an error. Kernels start without it.",
            where_set(report, "LD_PRELOAD"),
        )
    elif "tcmalloc" in preload:
        yield report.ok(
            "login",
            "Logins preload TCMalloc (LD_PRELOAD), which breaks some libraries. Kernels, jobs and "
            "runs start without it, except in environments with TorchTPU.",
        )
    platforms = hardware.variables.get("JAX_PLATFORMS", "")
    if platforms and "tpu" not in platforms.split(",") and not expected.without_chips:
        yield report.problem(
            "login",
            f"Logins set JAX_PLATFORMS={platforms}, so JAX does not use the TPU.",
            where_set(report, "JAX_PLATFORMS"),
        )
    fewest, limits = chip_limits(hardware)
    if limits:
        have = len(hardware.chips) or len(hardware.device_files)
        yield report.warning(
            "login",
            f"Logins set {assignments(limits)}, so a program sees {fewest} of the host's "
            f"{count(have, 'chip')}.",
            f"{where_set(report, *limits)} Set them only for single programs that share the host.",
        )


def assignments(variables: Mapping[str, str]) -> str:
    """ "A=1 and B=2"."""
    return " and ".join(f"{name}={value}" for name, value in variables.items())


def where_set(report: Report, *names: str) -> str:
    """How to find the variables of a login, to remove them."""
    find = " ".join(f"-e {name}" for name in names)
    return f"This shows where: {report.ssh(f'grep -ns {find} {_LOGIN_FILES}')}. Remove it there."
