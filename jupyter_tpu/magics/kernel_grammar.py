"""The commands of ``%tpu`` for this notebook's kernels on TPUs, and the options of ``%%tpu``."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ..errors import InvalidInput, Reason, TPUError
from ..terminal.environment_options import Content, content_options
from ..terminal.grammar import CONTEXT, Command, argument, examples
from ..terminal.parameters import environment_option, tpu_argument
from ..terminal.questions import confirm, yes_option
from ..terminal.session import open_session
from ..terminal.tables import table
from ..wording import phrase
from .kernels import Key, kernelspec_of
from .show import wait_for

if TYPE_CHECKING:
    from .kernels import NotebookKernels


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


@click.command("connect", cls=Command)
@tpu_argument()
@environment_option
@content_options()
@all_hosts_option
@click.pass_obj
def connect(
    kernels: NotebookKernels,
    name: str,
    environment: str,
    content: Content,
    all_hosts: bool | None,
) -> None:
    """Prepare a TPU, and start a kernel of this notebook on it."""
    if all_hosts is None:
        all_hosts = False
    request = content.request(environment)
    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        ref = f"{tpu.zone}~{tpu.name}"
        if kernelspec_of(tpu, environment, all_hosts=all_hosts) is None or content:
            wait_for(session, session.call(session.fleet.connect(ref, request)))
            tpu = session.call(session.fleet.tpu(ref))
    spec = kernelspec_of(tpu, environment, all_hosts=all_hosts)
    if spec is None:
        what = f"environment {environment}"
        if all_hosts and kernelspec_of(tpu, environment):
            if any(one.name == environment and one.has_torch for one in tpu.environments):
                from ..fleet.models.environments import POD_KERNEL_HINT, POD_KERNEL_NEEDS_JAX

                raise InvalidInput(POD_KERNEL_NEEDS_JAX, POD_KERNEL_HINT)
            what = "kernel for all hosts: it has one host"
        raise TPUError(f"{tpu.name} is connected, but has no {what}.")
    kernel = kernels.start(Key(ref, environment, all_hosts), *spec)
    print(f"{kernel.display_name}: cells that begin with %%tpu now run there.")


@click.command("status", cls=Command)
@click.pass_obj
def status(kernels: NotebookKernels) -> None:
    """List this notebook's kernels on TPUs."""
    print(_auto_state(kernels))
    if not kernels.all():
        print("This notebook has no kernel on a TPU. Start one: %tpu connect NAME")
        return
    rows = [
        (
            kernel.tpu,
            kernel.environment,
            kernel.display_name,
            "running" if kernel.alive() else "dead",
            "default of %%tpu" if key == kernels.last else "",
        )
        for key, kernel in kernels.all().items()
    ]
    print(table(("TPU", "ENVIRONMENT", "KERNEL", "STATE", ""), rows))
    print("They end when this notebook's own kernel ends.")


@click.command("disconnect", cls=Command)
@tpu_argument(required=False)
@yes_option("End a cell that is running there, too.")
@click.pass_obj
def disconnect(kernels: NotebookKernels, name: str | None, yes: bool) -> None:
    """End this notebook's kernels on a TPU, and disconnect it (default: the one used last)."""
    name = name or kernels.last_tpu
    if not name:
        raise TPUError("This notebook has no kernel on a TPU.", Reason.NOT_FOUND)
    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        ref = f"{tpu.zone}~{tpu.name}"
        own = {key: kernel for key, kernel in kernels.all().items() if key[0] == ref}
        if not yes and any(
            remote_kernel.alive() and remote_kernel.unfinished() for remote_kernel in own.values()
        ):
            confirm(
                f"A cell of this notebook is still running on {tpu.name}. End it?",
                "Interrupt it, wait until it ends, or add --yes.",
            )
        for key in own:
            kernels.end(key)
        if kernels.auto is not None and kernels.auto[0] == ref:
            kernels.auto = None
            print(_auto_state(kernels))
        try:
            wait_for(session, session.call(session.fleet.disconnect(ref)))
        except TPUError as error:
            if error.reason is not Reason.KERNELS_RUNNING:
                raise
            print(f"This notebook's kernel has ended. {error.message} {tpu.name} stays connected.")
        else:
            print(f"Disconnected {tpu.name}. Its environments stay on its hosts.")


@click.command("memory", cls=Command, epilog=examples("%tpu memory", "%tpu memory --free"))
@tpu_option
@kernel_environment_option
@click.option(
    "--free", is_flag=True, help="First free what only outputs and the last error keep in memory."
)
@host_option
@click.pass_obj
def memory(
    kernels: NotebookKernels,
    tpu: str | None,
    environment: str | None,
    free: bool,
    host: str | None,
) -> None:
    """Show which variables hold the memory of a TPU's devices.

    Also works while a background cell (%%tpu --no-wait) is running. In a notebook whose kernel is
    on a TPU, %tpu memory is always there, also in a subshell console.
    """
    from .cells import print_concurrently

    words = "memory --free" if free else "memory"
    print_concurrently(
        kernels.use(tpu, environment)[0], f"get_ipython().run_line_magic('tpu', '{words}')", host
    )


@click.command(
    "checkpoint", cls=Command, epilog=examples("%tpu checkpoint save", "%tpu checkpoint off")
)
@click.argument("function", required=False, default="")
@tpu_option
@kernel_environment_option
@host_option
@click.pass_obj
def checkpoint(
    kernels: NotebookKernels,
    function: str,
    tpu: str | None,
    environment: str | None,
    host: str | None,
) -> None:
    """Choose a function that runs when Google announces that it will stop the TPU.

    FUNCTION is one of the kernel on the TPU, without arguments, such as save or trainer.save. It
    runs in a thread, also during a running cell. Without FUNCTION the chosen one is shown; "off"
    removes the choice. In a notebook whose kernel is on a TPU, %tpu checkpoint is always there.
    """
    from .cells import print_concurrently

    words = f"checkpoint {function}".strip()
    print_concurrently(
        kernels.use(tpu, environment)[0], f"get_ipython().run_line_magic('tpu', {words!r})", host
    )


@click.command(
    "session",
    cls=Command,
    epilog=examples(
        "%tpu session save",
        "%tpu session restore",
        "%tpu session auto",
        "%tpu session restore train --from my-tpu",
    ),
)
@click.argument("action", nargs=-1, metavar="save|restore|list|forget|auto [NAME]")
@click.option("--in", "place", metavar="PLACE", help="A folder of the host, or gs://BUCKET/FOLDER.")
@click.option("--overwrite", is_flag=True, help="Replace variables of the same names.")
@click.option(
    "--from",
    "source",
    metavar="TPU",
    help="Restore a session of this TPU into a local notebook: arrays and simple values, from the "
    "copy on this computer.",
)
@tpu_option
@kernel_environment_option
@click.pass_obj
def kernel_session(
    kernels: NotebookKernels,
    action: tuple[str, ...],
    place: str | None,
    overwrite: bool,
    source: str | None,
    tpu: str | None,
    environment: str | None,
) -> None:
    """Save the variables of the kernel on the TPU, and restore them in another one.

    In a notebook whose kernel is on a TPU, %tpu session is always there.
    """
    if source is not None:
        if len(action) != 2 or action[0] != "restore" or place:
            raise InvalidInput("--from is for: %tpu session restore NAME --from TPU")
        from .sessions import restore_here

        print(restore_here(kernels.namespace, action[1], source, overwrite=overwrite))
        return
    from .cells import print_concurrently

    words = [
        "session", *action, *(["--in", place] if place else []), *(["--overwrite"] * overwrite)
    ]  # fmt: skip
    line = " ".join(words)
    print_concurrently(
        kernels.use(tpu, environment)[0], f"get_ipython().run_line_magic('tpu', {line!r})"
    )


@click.command(
    "push", cls=Command, epilog=examples("%tpu push x params", "%tpu push x --tpu my-tpu")
)
@names_argument("Variables of this notebook.")
@tpu_option
@kernel_environment_option
@click.pass_obj
def push(
    kernels: NotebookKernels, names: tuple[str, ...], tpu: str | None, environment: str | None
) -> None:
    """Copy variables of this notebook to its kernel on a TPU.

    Arrays, also within lists, dicts and other objects, are copied as raw bytes, with their dtype.
    A JAX array is placed on the TPU's first device. Other
    objects are pickled here and unpickled there; their packages must be installed there.
    A kernel on all hosts gets them on each host; this computer sends them once, to host 0.
    """
    from .variables import push_variables

    push_variables(kernels.use(tpu, environment)[0], kernels.namespace, names)


@click.command(
    "pull", cls=Command, epilog=examples("%tpu pull loss params", "%tpu pull model --unpickle")
)
@names_argument("Variables of the kernel on the TPU.")
@tpu_option
@kernel_environment_option
@unpickle_option
@click.option(
    "--host",
    metavar="HOST|all",
    help='Of a kernel on all hosts: whose values. With "all" each variable is the list of the '
    "hosts' values, in order.  [default: 0]",
)
@click.pass_obj
def pull(
    kernels: NotebookKernels,
    names: tuple[str, ...],
    tpu: str | None,
    environment: str | None,
    unpickle: bool,
    host: str | None,
) -> None:
    """Copy variables of the kernel on a TPU to this notebook.

    Arrays are copied as raw bytes, with their dtype. JAX's are JAX arrays here if this notebook
    has imported JAX, and NumPy arrays if not. Built-in values, data frames, and lists, tuples,
    dicts and sets of these are rebuilt without running code. Other objects need --unpickle.
    """
    from .variables import pull_variables

    kernel, _ = kernels.use(tpu, environment)
    pull_variables(kernel, kernels.namespace, names, unpickle=unpickle, host=host)


@click.command(
    "auto", cls=Command, epilog=examples("%tpu auto on", "%tpu auto on my-tpu", "%tpu auto off")
)
@argument(
    "state",
    type=click.Choice(["on", "off"]),
    required=False,
    metavar="[on|off]",
    help="If omitted, the command shows whether automatic running is on.",
)
@tpu_argument(required=False)
@kernel_environment_option
@all_hosts_option
@click.pass_obj
def auto(
    kernels: NotebookKernels,
    state: str | None,
    name: str | None,
    environment: str | None,
    all_hosts: bool | None,
) -> None:
    """Run every following cell on a TPU, as if it began with %%tpu.

    Cells that begin with %tpu, %%tpu or %%local run as before: %%local means here.
    """
    if state == "on":
        kernels.use(name, environment, all_hosts)
        kernels.auto = kernels.last
    elif state == "off":
        kernels.auto = None
    print(_auto_state(kernels))


def _auto_state(kernels: NotebookKernels) -> str:
    if kernels.auto is None:
        return "Automatic running is off: cells that begin with %%tpu run on a TPU."
    key = kernels.auto
    where = key.ref.partition("~")[2]
    if key.all_hosts:
        where = phrase(f"all hosts of {where}")
    return (
        f"Automatic running is on: every cell runs on {where} (environment "
        f"{key.environment}), except those that begin with %%local. To end it: %tpu auto off"
    )


class CellOptions(NamedTuple):
    """What the line of a ``%%tpu`` cell says."""

    name: str | None
    environment: str | None
    #: The local variable that gets the cell's value, or its handle.
    out: str | None
    wait: bool
    unpickle: bool
    all_hosts: bool | None


@click.command(
    "%%tpu",
    cls=Command,
    context_settings=CONTEXT,
    epilog=examples("%%tpu", "%%tpu my-tpu --out loss", "%%tpu --no-wait --out training"),
)
@tpu_argument(required=False)
@kernel_environment_option
@click.option(
    "--out",
    metavar="VARIABLE",
    type=Variable(),
    help="Copy the value of the cell's last line to this variable of this notebook. With "
    "--no-wait, the variable gets the handle.",
)
@click.option(
    "--no-wait",
    "wait",
    flag_value=False,
    default=True,
    show_default=False,
    help="Return at once, with a handle: its result(), done(), output, show() and interrupt().",
)
@unpickle_option
@all_hosts_option
def cell(
    name: str | None,
    environment: str | None,
    out: str | None,
    wait: bool,
    unpickle: bool,
    all_hosts: bool | None,
) -> CellOptions:
    """Run this cell on a TPU, by default the one that was used last; see %tpu.

    The value of the last line is also Out[n] and _ of this notebook: itself if it is small and
    plain (numbers, text, arrays of up to 64 KiB), else a stand-in, whose pull() copies the value.
    An error is raised here with the nearest built-in class: `except ValueError` catches it.
    exit() ends the kernel on the TPU, with its variables.
    """
    return CellOptions(name, environment, out, wait, unpickle, all_hosts)
