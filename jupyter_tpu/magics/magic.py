"""The words of ``%tpu`` and ``%%tpu``."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import queue
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.magic import no_var_expand

from ..errors import TPUError

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation
    from ..kernels.specs import KernelSpec
    from .comms import Comms
    from .remote import RemoteKernel

_COMMANDS = ("connect", "status", "list", "tunnel", "disconnect")

_HELP = """\
%tpu connect NAME [--env ENV] [--python 3.12] [--packages P …]
                       make the TPU ready and start a kernel of this notebook's on it
%%tpu [NAME] [--env ENV]
                       run this cell on the TPU (the last one used, if no name is given)
%%tpu compile TYPE [OPTIONS]
                       run this cell here and say whether the program that its last line names
                       (function, shapes …) fits a TPU of that type; needs no TPU
%tpu list              the project's TPUs
%tpu status            this notebook's kernels on TPUs
%tpu tunnel [NAME PORT[:LOCAL] … | remove PORT]
                       lead ports of this machine to ports of a host; list or remove such tunnels
%tpu disconnect [NAME] end this notebook's kernel there, and disconnect the TPU

A notebook has one kernel per TPU and environment; its variables stay from cell to cell. It ends
when the notebook's own kernel ends."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        from .show import MagicError

        raise MagicError(f"{message} (see %tpu)")


class TPUMagics:
    """The magics of one IPython shell, and the remote kernels they started."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        #: By TPU (zone~name) and environment.
        self._kernels: dict[tuple[str, str], tuple[RemoteKernel, Comms]] = {}
        self._last: tuple[str, str] | None = None

    def register(self) -> None:
        self._shell.register_magic_function(self.line, "line", "tpu")
        self._shell.register_magic_function(self.cell, "cell", "tpu")
        self._shell.set_hook("complete_command", self._complete, re_key=r"%%?tpu\b")
        atexit.register(self.end_kernels)

    def unregister(self) -> None:
        self.end_kernels()
        atexit.unregister(self.end_kernels)
        for kind in ("line", "cell"):
            self._shell.magics_manager.magics[kind].pop("tpu", None)

    def end_kernels(self) -> None:
        """Ends all remote kernels of this notebook; called when its kernel exits."""
        while self._kernels:
            kernel, comms = self._kernels.popitem()[1]
            comms.close()
            kernel.end()
        self._last = None

    # ---- %tpu ----------------------------------------------------------------------------------

    def line(self, line: str) -> None:
        """%tpu connect|status|list|tunnel|disconnect: a notebook's kernels on TPUs."""
        words = _words(line)
        if not words or words[0] in ("help", "-h", "--help"):
            print(_HELP)
            return
        command, *rest = words
        if command not in _COMMANDS:
            from .show import MagicError

            raise MagicError(
                f"%tpu has no {command}; it has {', '.join(_COMMANDS)}. "
                "A cell runs on a TPU with %%tpu on its first line."
            )
        with _plain_errors():
            getattr(self, f"_{command}")(rest)

    def _connect(self, words: list[str]) -> None:
        from ..commands.session import open_session
        from ..fleet.models import ConnectTPU

        parser = _Parser(prog="%tpu connect", add_help=False)
        parser.add_argument("name")
        parser.add_argument("--env", default="default")
        parser.add_argument("--python")
        parser.add_argument("--packages", nargs="+", default=[])
        chosen = parser.parse_args(words)
        wanted = ConnectTPU(
            environment=chosen.env, python=chosen.python, packages=list(chosen.packages)
        )
        with open_session() as session:
            tpu = session.call(session.fleet.tpu(chosen.name))
            if _ready(tpu, chosen.env) is None or chosen.python or chosen.packages:
                ref = f"{tpu.zone}~{tpu.name}"
                self._finish(session, session.call(session.fleet.connect(ref, wanted)))
                tpu = session.call(session.fleet.tpu(ref))
        spec = _ready(tpu, chosen.env)
        if spec is None:
            raise TPUError(f"{tpu.name} has no environment {chosen.env} after all.")
        kernel = self._kernel(f"{tpu.zone}~{tpu.name}", chosen.env, *spec)
        print(f"{kernel.display_name}: cells that begin with %%tpu run there now.")

    def _list(self, words: list[str]) -> None:
        from ..commands.session import open_session
        from ..commands.tables import tpu_table

        _Parser(prog="%tpu list", add_help=False).parse_args(words)
        with open_session() as session:
            print(tpu_table(session.call(session.fleet.tpus())))

    def _status(self, words: list[str]) -> None:
        from ..commands.tables import table

        _Parser(prog="%tpu status", add_help=False).parse_args(words)
        if not self._kernels:
            print("This notebook has no kernel on a TPU. `%tpu connect NAME` starts one.")
            return
        rows = [
            (
                kernel.tpu,
                kernel.environment,
                kernel.display_name,
                "running" if kernel.alive() else "dead",
                "used by %%tpu without a name" if key == self._last else "",
            )
            for key, (kernel, _) in self._kernels.items()
        ]
        print(table(("TPU", "ENVIRONMENT", "KERNEL", "STATE", ""), rows))
        print("They end when this notebook's own kernel ends.")

    def _tunnel(self, words: list[str]) -> None:
        """As the command; beside a running server only, which keeps the tunnels."""
        from ..commands.session import open_session
        from ..commands.tables import describe_tunnel, tunnel_table
        from ..commands.tunnels import close_tunnels, parse_ports
        from ..errors import Reason

        parser = _Parser(prog="%tpu tunnel", add_help=False)
        parser.add_argument("name", nargs="?")
        parser.add_argument("ports", nargs="*")
        parser.add_argument("--worker", type=int, default=0)
        chosen = parser.parse_args(words)
        with open_session() as session:
            if chosen.name == "remove" and chosen.ports:
                for each in close_tunnels(session, chosen.ports):
                    print(f"Closed: {describe_tunnel(each)}")
                return
            if not chosen.ports:
                name = None if chosen.name in (None, "list") else chosen.name
                fleet = session.fleet
                print(
                    tunnel_table(session.call(fleet.tunnels(name) if name else fleet.all_tunnels()))
                )
                return
            if session.server is None:
                raise TPUError(
                    "No Jupyter server with the TPU extension runs here, which could keep a "
                    "tunnel.",
                    Reason.CONFLICT,
                    f"In a terminal: jupyter tpu tunnel {chosen.name} {' '.join(chosen.ports)}",
                )
            for word in chosen.ports:
                wanted = parse_ports(word, worker=chosen.worker)
                print(describe_tunnel(session.call(session.fleet.open_tunnel(chosen.name, wanted))))

    def _disconnect(self, words: list[str]) -> None:
        from ..commands.session import open_session
        from ..errors import Reason

        parser = _Parser(prog="%tpu disconnect", add_help=False)
        parser.add_argument("name", nargs="?")
        name = parser.parse_args(words).name or (self._last and self._last[0])
        if not name:
            raise TPUError("This notebook has no kernel on a TPU.", Reason.NOT_FOUND)
        with open_session() as session:
            tpu = session.call(session.fleet.tpu(name))
            ref = f"{tpu.zone}~{tpu.name}"
            for key in [key for key in self._kernels if key[0] == ref]:
                self._end(key)
            try:
                self._finish(session, session.call(session.fleet.disconnect(ref)))
            except TPUError as error:
                if error.reason is not Reason.KERNELS_RUNNING:
                    raise
                print(f"This notebook's kernel has ended. {error.message} So it stays connected.")
            else:
                print(f"{tpu.name} is disconnected; its environments stay on its hosts.")

    def _finish(self, session: Any, operation: Operation) -> None:
        """Waits for the operation, shown as one display that is updated."""
        from ..commands.operations import left_running, progress_line, raise_failure
        from ..fleet.client import wait_for_end
        from ..links import core_thread
        from .show import MagicError, OperationDisplay

        states: queue.SimpleQueue[tuple[Operation, str] | None] = queue.SimpleQueue()

        async def watch() -> Operation:
            try:
                return await wait_for_end(
                    session.fleet, operation, lambda now: states.put((now, progress_line(now)))
                )
            finally:
                states.put(None)

        display = OperationDisplay()
        future = core_thread().submit(watch())
        try:
            while (state := states.get()) is not None:
                display.show(*state)
            raise_failure(future.result())
        except KeyboardInterrupt:
            raise MagicError(left_running(session, operation)) from None
        finally:
            future.cancel()

    # ---- %%tpu ---------------------------------------------------------------------------------

    @no_var_expand
    def cell(self, line: str, cell: str) -> Any:
        """%%tpu [NAME]: runs this cell on a TPU's host; see %tpu."""
        from .show import run_cell

        word, _, rest = line.strip().partition(" ")
        if word == "compile":  # a TPU of that name is there as ZONE/compile
            from .compiling import compile_cell

            with _plain_errors():
                return compile_cell(self._shell, rest, cell)
        # As IPython does it for magics; `compile` has braces of Python's own on its line.
        line = self._shell.var_expand(line, 2)
        parser = _Parser(prog="%%tpu", add_help=False)
        parser.add_argument("name", nargs="?")
        parser.add_argument("--env")
        chosen = parser.parse_args(_words(line))
        with _plain_errors():
            key = self._chosen(chosen.name, chosen.env)
            kernel, comms = self._kernels[key]
            if not kernel.alive():
                self._end(key)
                raise TPUError(
                    f"This notebook's kernel on {kernel.tpu} has ended.",
                    hint="Run the cell again: it starts a new one, without its variables.",
                )
            self._last = key
            run_cell(kernel, comms, cell, allow_stdin=self._allow_stdin())
        return None

    def _chosen(self, name: str | None, environment: str | None) -> tuple[str, str]:
        """Which kernel a cell is for; it is started if it does not run."""
        from ..errors import Reason

        if name is None and environment is None and self._last is not None:
            return self._last
        name = name.replace("/", "~", 1) if name else (self._last[0] if self._last else None)
        for key in self._kernels:
            if (name is None or name in (key[0], key[0].partition("~")[2])) and (
                environment in (None, key[1])
            ):
                return key
        found = [
            spec
            for spec in _specs()
            if (name is None or name in (spec.config["tpu"], _ref(spec)))
            and environment in (None, spec.config["environment"])
        ]
        if len(found) > 1 and environment is None:
            found = [spec for spec in found if spec.config["environment"] == "default"]
        if not found:
            raise TPUError(
                f"{name or 'No TPU'} has {'no' if name else 'a'} kernel in this Jupyter.",
                Reason.NOT_FOUND,
                f"Make one: %tpu connect {name or 'NAME'}",
            )
        if len(found) > 1:
            names = ", ".join(sorted({_ref(spec).replace("~", "/") for spec in found}))
            raise TPUError(f"Which TPU? There are {names}.", Reason.INVALID, "Say %%tpu NAME.")
        spec = found[0]
        key = _ref(spec), spec.config["environment"]
        self._kernel(*key, spec.name, spec.display_name)
        return key

    def _kernel(self, ref: str, environment: str, spec: str, display_name: str) -> RemoteKernel:
        """This notebook's kernel there, started if it does not run."""
        from .comms import Comms
        from .remote import RemoteKernel

        key = (ref, environment)
        if key in self._kernels and not self._kernels[key][0].alive():
            self._end(key)
        if key not in self._kernels:
            kernel = RemoteKernel(spec, ref.partition("~")[2], environment, display_name)
            kernel.start()
            self._kernels[key] = (kernel, Comms(kernel))
        self._last = key
        return self._kernels[key][0]

    def _end(self, key: tuple[str, str]) -> None:
        kernel, comms = self._kernels.pop(key)
        if self._last == key:
            self._last = None
        comms.close()
        kernel.end()

    def _allow_stdin(self) -> bool:
        """Whether this notebook's page answers input(); IPython in a terminal always does."""
        kernel = getattr(self._shell, "kernel", None)
        return bool(getattr(kernel, "_allow_stdin", True))

    # ---- completion ----------------------------------------------------------------------------

    def _complete(self, _shell: Any, event: Any) -> list[str]:
        """Subcommands, and the names of TPUs that have a kernel here; asks no network."""
        words = event.line.split()
        if words[:2] == ["%%tpu", "compile"] and event.line != "%%tpu compile":
            from ..catalog import types

            return [kind.name for kind in types()]
        names = sorted({spec.config["tpu"] for spec in _specs()})
        if event.line.lstrip().startswith("%%"):
            return [*names, "compile"]
        if len(words) < 2 or (len(words) == 2 and not event.line.endswith(" ")):
            return list(_COMMANDS)
        return names


def _specs() -> list[KernelSpec]:
    """The kernels of TPUs in this Jupyter, from their files."""
    from ..kernels import KernelSpecs

    return KernelSpecs().list()


def _ref(spec: KernelSpec) -> str:
    return f"{spec.config['zone']}~{spec.config['tpu']}"


def _words(line: str) -> list[str]:
    from .show import MagicError

    try:
        return shlex.split(line)
    except ValueError as error:
        raise MagicError(f"%tpu: {error}".lower()) from None


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """What the core raises, as one sentence without a traceback."""
    from .show import MagicError

    try:
        yield
    except TPUError as error:
        raise MagicError(str(error)) from None


def _ready(tpu: TPU, environment: str) -> tuple[str, str] | None:
    """The kernelspec and display name of a ready environment of a connected TPU."""
    for each in tpu.environments:
        if each.name == environment and each.state == "ready" and each.kernelspec:
            return (
                (each.kernelspec, each.display_name) if tpu.connection != "disconnected" else None
            )
    return None
