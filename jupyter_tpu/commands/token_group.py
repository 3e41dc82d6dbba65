"""``jupyter tpu token`` and ``%tpu token``: which tokens of this computer TPUs get."""

from __future__ import annotations

import click

from .grammar import Group, argument, examples
from .printing import list_options, print_list
from .tokens import describe_tokens, list_tokens, pass_tokens, remove_tokens

_tokens_argument = argument(
    "tokens", nargs=-1, required=True, metavar="NAME...", help="Such as HF_TOKEN or WANDB_API_KEY."
)


@click.group("token", cls=Group)
def token() -> None:
    """Choose which tokens of this computer are passed to kernels, commands and jobs on TPUs.

    A token is a variable of the environment in which Jupyter runs. HF_TOKEN is also found where
    `hf auth login` stores it, and WANDB_API_KEY where `wandb login` does. Only names are
    stored. Values are read when something starts. They are in no file and no process list of the
    host.
    """


@token.command("list")
@list_options
def list_all() -> None:
    """List the tokens, and where each is found. Values are not shown."""
    print_list(list_tokens(), describe_tokens)


@token.command("pass", epilog=examples("jupyter tpu token pass HF_TOKEN WANDB_API_KEY"))
@_tokens_argument
def pass_on(tokens: tuple[str, ...]) -> None:
    """Pass tokens to kernels, commands and jobs that are started on TPUs from now on."""
    print(pass_tokens(tokens))


@token.command("remove", epilog=examples("jupyter tpu token remove HF_TOKEN"))
@_tokens_argument
def remove(tokens: tuple[str, ...]) -> None:
    """Stop passing tokens to what is started from now on."""
    print(remove_tokens(tokens))
