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
            "Kernels, commands and jobs on TPUs get no token. To pass one on: jupyter tpu token "
            "pass HF_TOKEN"
        )
    return str(table(("TOKEN", "FROM"), rows))


def pass_tokens(names: tuple[str, ...]) -> str:
    tokens.pass_on(*names)
    lines = [f"Kernels, commands and jobs on TPUs get {', '.join(names)} from their next start on."]
    lines += [
        f"{name}: {MISSING}. {tokens.how_to_set(name)}"
        for name in names
        if tokens.find(name) is None
    ]
    return "\n".join(lines)


def remove_tokens(names: tuple[str, ...]) -> str:
    removed = [name for name in names if tokens.keep_back(name)]
    if not removed:
        return f"{', '.join(names)}: not passed to TPUs."
    return (
        f"Kernels, commands and jobs that are started from now on don't get {', '.join(removed)}. "
        "Those that run keep it."
    )
