"""What one check of a TPU, or of a project, has found."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

Check = Literal[
    "connection", "agent", "chips", "holders", "lock", "login", "jax", "torch", "versions", "disk",
    "clock", "ports", "storage", "project", "api", "permission", "firewall", "key", "type",
    "image", "quota", "variables", "os-login", "numbers", "asyncssh", "mcp",
    "compute-api", "compute-permission", "compute-quota",
]  # fmt: skip


class Finding(Struct, frozen=True, kw_only=True):
    """The result of one check."""

    check: Check
    #: None: of no host, but of the TPU; or of the project, where there is no TPU yet.
    host: int | None = None
    state: Literal["ok", "warning", "problem", "unknown"]
    message: str
    #: What to do; "" if nothing has to be done.
    hint: str = ""


class Report:
    """Makes the findings of one host, or, without a number, of none.

    tpu: the name of the TPU, for hints.
    """

    def __init__(self, host: int | None = None, tpu: str = "") -> None:
        self.host = host
        self.tpu = tpu

    def ok(self, check: Check, message: str, hint: str = "") -> Finding:
        return self._make(check, "ok", message, hint)

    def warning(self, check: Check, message: str, hint: str) -> Finding:
        return self._make(check, "warning", message, hint)

    def problem(self, check: Check, message: str, hint: str) -> Finding:
        return self._make(check, "problem", message, hint)

    def unknown(self, check: Check, message: str, hint: str) -> Finding:
        return self._make(check, "unknown", message, hint)

    def _make(self, check: Check, state: Any, message: str, hint: str) -> Finding:
        return Finding(check=check, host=self.host, state=state, message=message, hint=hint)

    # ---- commands for hints ----

    @property
    def option(self) -> str:
        """The option that names the host, with a space before it; "" of the first one."""
        return f" --worker {self.host}" if self.host else ""

    def ssh(self, command: str) -> str:
        """What runs *command*, which has no single quotes, on the host."""
        return f"jupyter tpu ssh {self.tpu}{self.option} --command '{command}'"


def healthy(findings: list[Finding]) -> bool:
    """Whether none of them is a problem."""
    return all(finding.state != "problem" for finding in findings)
