"""Arguments and options that several commands of ``%tpu`` share."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..commands.grammar import argument

F = TypeVar("F", bound=Callable[..., Any])


class Variable(click.ParamType):
    """The name of a variable."""

    name = "variable"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.isidentifier() or keyword.iskeyword(value):
            self.fail(f"{value!r} is not the name of a variable.", param, ctx)
        return str(value)


def names_argument(help: str) -> Callable[[F], F]:
    return argument(
        "names", nargs=-1, required=True, type=Variable(), metavar="VARIABLE...", help=help
    )


tpu_option = click.option("--tpu", metavar="NAME", help="The TPU.  [default: the last one used]")
kernel_environment_option = click.option(
    "--env", "environment", metavar="ENV", help="Name of the environment."
)
all_hosts_option = click.option(
    "--all-hosts",
    is_flag=True,
    default=None,
    show_default=False,
    help="Run on all hosts of the TPU, each cell on each host.  [default: on host 0]",
)
host_option = click.option(
    "--host",
    metavar="HOST",
    help="Of a kernel on all hosts: only this host, such as 2.",
)
unpickle_option = click.option(
    "--unpickle",
    is_flag=True,
    show_default=False,
    help="Also copy objects that must be unpickled. This can run any code of the TPU here.",
)
