"""The findings of `jupyter tpu doctor` and `%tpu doctor` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..fleet.models import Diagnosis, Finding

_MARKS = {"ok": "ok", "warning": "WARNING", "problem": "PROBLEM", "unknown": "unknown"}
_WIDTH = max(map(len, _MARKS.values()))


def describe(diagnosis: Diagnosis) -> str:
    """A line per finding; what is the same on several hosts is one line, with their numbers."""
    many = any(finding.host for finding in diagnosis.findings)
    hosts: dict[tuple[str, str, str, str], list[int | None]] = {}
    for finding in diagnosis.findings:
        hosts.setdefault((finding.check, finding.state, finding.message, finding.hint), []).append(
            finding.host
        )
    lines = []
    for (_, state, message, hint), numbers in hosts.items():
        known = [number for number in numbers if number is not None]
        where = f"{numbered(known)}: " if many and known else ""
        lines.append(f"{_MARKS[state]:{_WIDTH}}  {where}{message}")
        if hint:
            lines.append(" " * (_WIDTH + 2) + hint)
    return "\n".join([*lines, "", summary(diagnosis)])


def summary(diagnosis: Diagnosis) -> str:
    """The last line: how many problems there are, and what no one knows."""
    problems, unknown = _count(diagnosis.findings, "problem"), _count(diagnosis.findings, "unknown")
    what = diagnosis.tpu or "Before a TPU is created"
    if problems:
        return f"{what}: {problems} {'problem' if problems == 1 else 'problems'} found."
    if unknown:
        return f"{what}: no problem found, but {unknown} of the checks could not be made."
    return f"{what}: no problem found."


def numbered(hosts: list[int]) -> str:
    """ "host 0", "hosts 0-2, 5"."""
    runs: list[list[int]] = []
    for host in sorted(hosts):
        if runs and host == runs[-1][1] + 1:
            runs[-1][1] = host
        else:
            runs.append([host, host])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"host{'s' if len(hosts) > 1 else ''} {text}"


def _count(findings: list[Finding], state: str) -> int:
    return sum(finding.state == state for finding in findings)
