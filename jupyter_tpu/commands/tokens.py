"""What `jupyter tpu token` and `%tpu token` do: choose which tokens TPUs get."""

from __future__ import annotations

from .. import tokens
from .tables import table

#: Said where a chosen token has no value here.
MISSING = "not found here"


def list_tokens() -> list[dict[str, str]]:
    """``name`` and ``source`` of each; never a value."""
    found = [(name, tokens.find(name)) for name in tokens.passed_names()]
    return [{"name": name, "source": token.source if token else ""} for name, token in found]


def describe_tokens() -> str:
    rows = [(each["name"], each["source"] or MISSING) for each in list_tokens()]
    if not rows:
        return (
            "Kernels and commands on TPUs get no token. To pass one on: jupyter tpu token pass "
            "HF_TOKEN"
        )
    return str(table(("TOKEN", "FROM"), rows))


def pass_tokens(names: tuple[str, ...]) -> str:
    for name in names:
        tokens.pass_on(name)
    missing = [name for name in names if tokens.find(name) is None]
    text = f"Kernels and commands on TPUs get {', '.join(names)} from the next start on."
    if missing:
        text += (
            f"\n{', '.join(missing)}: {MISSING}. Set it where Jupyter is started"
            f"{_login_hint(missing)}."
        )
    return text


def remove_tokens(names: tuple[str, ...]) -> str:
    kept = [name for name in names if tokens.keep_back(name)]
    if not kept:
        return f"Kernels and commands on TPUs did not get {', '.join(names)}."
    return f"New kernels and commands on TPUs don't get {', '.join(kept)}. Those that run keep it."


def _login_hint(names: list[str]) -> str:
    logins = {"HF_TOKEN": "`hf auth login`", "WANDB_API_KEY": "`wandb login`"}
    known = [logins[name] for name in names if name in logins]
    return f", or run {' and '.join(known)}" if known else ""
