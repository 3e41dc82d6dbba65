"""``%tpu`` and ``%%tpu`` in one IPython shell."""

from __future__ import annotations

import atexit
import contextlib
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from IPython.core.magic import no_var_expand

from ..errors import TPUError
from .kernels import NotebookKernels, kernelspecs

if TYPE_CHECKING:
    import click


class TPUMagics:
    """The magics of one IPython shell, and the notebook's kernels on TPUs."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._kernels = NotebookKernels()

    def register(self) -> None:
        self._shell.register_magic_function(self.line, "line", "tpu")
        self._shell.register_magic_function(self.cell, "cell", "tpu")
        self._shell.set_hook("complete_command", self._complete, re_key=r"%%?tpu\b")
        # Before the notebook's kernel exits, so that its kernels on TPUs end with it.
        atexit.register(self._kernels.end_all)

    def unregister(self) -> None:
        self._kernels.end_all()
        atexit.unregister(self._kernels.end_all)
        for kind in ("line", "cell"):
            self._shell.magics_manager.magics[kind].pop("tpu", None)

    def line(self, line: str) -> None:
        """%tpu connect|status|list|tunnel|disconnect: this notebook's kernels on TPUs."""
        from . import grammar

        with _plain_errors():
            _run(grammar.line, line, self._kernels)

    @no_var_expand
    def cell(self, line: str, cell: str) -> Any:
        """%%tpu [NAME]: runs this cell on a TPU; see %tpu."""
        from . import grammar
        from .show import run_cell

        word, _, rest = line.strip().partition(" ")
        with _plain_errors():
            if word == "compile":  # a TPU of that name is ZONE/compile
                from .compiling import compile_cell

                return compile_cell(self._shell, rest, cell)
            # As IPython does it for magics; the line of `compile` has Python's own braces.
            choice = _run(grammar.cell, self._shell.var_expand(line, 2), self._kernels)
            if choice is not None:
                kernel, comms = self._kernels.use(*choice)
                run_cell(kernel, comms, cell, allow_stdin=self._allow_stdin())
        return None

    def _allow_stdin(self) -> bool:
        """Whether this notebook's page answers input(); IPython in a terminal always does."""
        kernel = getattr(self._shell, "kernel", None)
        return bool(getattr(kernel, "_allow_stdin", True))

    def _complete(self, _shell: Any, event: Any) -> list[str]:
        """Commands, and the names of TPUs that have a kernel here; asks no network."""
        from .grammar import line, tunnel

        words = event.line.split()
        if words[:2] == ["%%tpu", "compile"] and event.line != "%%tpu compile":
            from ..catalog import types

            return [each.name for each in types()]
        names = sorted({spec.config["tpu"] for spec in kernelspecs()})
        if event.line.lstrip().startswith("%%"):
            return [*names, "compile"]
        if len(words) < 2 or (len(words) == 2 and not event.line.endswith(" ")):
            return list(line.commands)
        return [*tunnel.commands, *names] if words[1] == "tunnel" else names


def _run(command: click.Command, line: str, kernels: NotebookKernels) -> Any:
    """Parses and runs a line; returns what its command returns, or None after --help."""
    import click

    from ..commands.grammar import usage_line
    from .show import MagicError

    try:
        assert command.name is not None
        with command.make_context(command.name, shlex.split(line), obj=kernels) as ctx:
            return command.invoke(ctx)
    except click.exceptions.Exit:
        return None
    except click.UsageError as error:
        raise MagicError(usage_line(error)) from None
    except ValueError as error:  # of shlex
        raise MagicError(f"{command.name}: {error}".lower()) from None
    except KeyboardInterrupt:
        raise MagicError(
            "Interrupted. `%tpu list` shows the TPUs, `%tpu status` this notebook's kernels."
        ) from None


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """What the core raises, as one sentence without a traceback."""
    from .show import MagicError

    try:
        yield
    except TPUError as error:
        raise MagicError(str(error)) from None
