"""``%tpu`` and ``%%tpu`` in one IPython shell, and which cells run on the TPU without them."""

from __future__ import annotations

import atexit
import shlex
from typing import TYPE_CHECKING, Any

from IPython.core.magic import no_var_expand

from ..errors import InvalidInput
from .kernels import NotebookKernels, kernelspecs

if TYPE_CHECKING:
    import click

    from .cells import CellHandle
    from .kernel_grammar import CellOptions
    from .kernels import NotebookKernels


LOCAL = "%%local"


class AutoRun:
    """Transforms the cells of one IPython shell.

    Only what the user runs: no code within a running cell, and none that a page or an extension
    runs silently.
    """

    #: IPython leaves it out when it only asks whether a cell is complete.
    has_side_effects = True

    def __init__(self, shell: Any, kernels: NotebookKernels) -> None:
        self._shell = shell
        self._kernels = kernels
        self._running = 0  # cells, one within the other

    def register(self) -> None:
        self._shell.input_transformers_cleanup.insert(0, self)
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)

    def unregister(self) -> None:
        self._shell.input_transformers_cleanup.remove(self)
        self._shell.events.unregister("pre_run_cell", self._begin)
        self._shell.events.unregister("post_run_cell", self._end)

    def __call__(self, lines: list[str]) -> list[str]:
        first = next((line.strip() for line in lines if line.strip()), "")
        if first == LOCAL:
            return lines[[line.strip() for line in lines].index(LOCAL) + 1 :]
        if first.startswith("%%tpu") and len(lines) == 1:
            return [*lines, "\n"]  # IPython refuses a cell magic without a body, as for --help
        key = self._kernels.auto
        if key is None or not first or first.startswith(("%tpu", "%%tpu")) or not self._typed():
            return lines
        options = " --all-hosts" if key.all_hosts else ""
        return [f"%%tpu {key.ref.replace('~', '/')} --env {key.environment}{options}\n", *lines]

    def _typed(self) -> bool:
        if self._running:
            return False
        get_parent = getattr(self._shell, "get_parent", None)  # none in a terminal
        return get_parent is None or not get_parent().get("content", {}).get("silent", False)

    def _begin(self, _info: Any) -> None:
        self._running += 1

    def _end(self, _result: Any) -> None:
        self._running = max(0, self._running - 1)  # the cell that loaded the extension began before


class TPUMagics:
    """The magics of one IPython shell, and the notebook's kernels on TPUs."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._kernels = NotebookKernels(shell.user_ns)
        self._auto = AutoRun(shell, self._kernels)

    def register(self) -> None:
        self._shell.register_magic_function(self.line, "line", "tpu")
        self._shell.register_magic_function(self.cell, "cell", "tpu")
        self._auto.register()
        self._shell.set_hook("complete_command", self._complete, re_key=r"%%?tpu\b")
        # Before the notebook's kernel exits, so that its kernels on TPUs end with it.
        atexit.register(self._kernels.end_all)

    def unregister(self) -> None:
        self._auto.unregister()
        self._kernels.end_all()
        atexit.unregister(self._kernels.end_all)
        for kind in ("line", "cell"):
            self._shell.magics_manager.magics[kind].pop("tpu", None)

    def line(self, line: str) -> None:
        """%tpu connect|status|push|pull|sync|copy|auto|list|run|job|tunnel …: see %tpu --help."""
        from . import grammar
        from .failures import plain_errors

        with plain_errors():
            _run(grammar.line, line, self._kernels)

    @no_var_expand
    def cell(self, line: str, cell: str) -> Any:
        """%%tpu [NAME]: runs this cell on a TPU; see %tpu."""
        from . import kernel_grammar
        from .failures import plain_errors

        word, _, rest = line.strip().partition(" ")
        with plain_errors():
            if word == "compile":  # a TPU of that name is ZONE/compile
                from ..terminal.agent_access import require_cell
                from .compiling import compile_cell

                require_cell(word)
                return compile_cell(self._shell, rest, cell)
            # As IPython does it for magics; the line of `compile` has Python's own braces.
            options = _run(kernel_grammar.cell, self._shell.var_expand(line, 2), self._kernels)
            if options is None:
                return None
            return self._run_there(options, cell) if options.wait else self._start(options, cell)

    def _run_there(self, options: CellOptions, code: str) -> None:
        from .cells import RemoteValue, run_cell

        kernel, comms = self._kernels.use(options.name, options.environment, options.all_hosts)
        outcome = run_cell(self._shell, kernel, comms, code, allow_stdin=self._allow_stdin())
        if outcome.exited:
            self._kernels.end_kernel(kernel)
            print(
                f"exit() ended this notebook's kernel on {kernel.tpu}. Its variables are lost. "
                "The next %%tpu cell starts a new one."
            )
        if options.out is not None:
            if outcome.content is None:
                raise InvalidInput(
                    f"The cell's last line has no value, so {options.out} was not set."
                )
            value = outcome.value
            if isinstance(value, RemoteValue):
                value = value.pull(unpickle=options.unpickle)
            self._kernels.namespace[options.out] = value

    def _start(self, options: CellOptions, code: str) -> CellHandle | None:
        from .cells import CellHandle, start_cell

        kernel, comms = self._kernels.use(options.name, options.environment, options.all_hosts)
        handle = CellHandle(comms, start_cell(kernel, code, allow_stdin=False))
        if options.out is None:
            return handle
        self._kernels.namespace[options.out] = handle
        return None

    def _allow_stdin(self) -> bool:
        """Whether this notebook's page answers input(); IPython in a terminal always does."""
        kernel = getattr(self._shell, "kernel", None)
        return bool(getattr(kernel, "_allow_stdin", True))

    def _complete(self, _shell: Any, event: Any) -> list[str]:
        """Commands, variables, and the names of TPUs that have a kernel here; asks no network."""
        import click

        from .grammar import line

        words = event.line.split()
        if words[:2] == ["%%tpu", "compile"] and event.line != "%%tpu compile":
            from ..catalog import types

            return [type_.name for type_ in types()]
        names = sorted({spec.place.tpu for spec in kernelspecs()})
        if event.line.lstrip().startswith("%%"):
            return [*names, "compile"]
        if len(words) < 2 or (len(words) == 2 and not event.line.endswith(" ")):
            return list(line.commands)
        if words[1] == "push":
            return [name for name in self._shell.user_ns if not name.startswith("_")]
        command = line.commands.get(words[1])
        verbs = [*command.commands] if isinstance(command, click.Group) else []
        if words[1] in ("pull", "token"):
            return verbs
        return ["on", "off", *names] if words[1] == "auto" else [*verbs, *names]


def _run(command: click.Command, line: str, kernels: NotebookKernels) -> Any:
    """Parses and runs a line; returns what its command returns, or None after --help."""
    import click

    from ..terminal.grammar import usage_line
    from ..terminal.language import choose_from
    from ..terminal.streams import clean_output
    from .failures import MagicError

    assert command.name is not None
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise MagicError(f"{command.name}: {error}".lower()) from None
    choose_from(words)
    try:
        with clean_output(), command.make_context(command.name, words, obj=kernels) as ctx:
            return command.invoke(ctx)
    except click.exceptions.Exit:
        return None
    except click.UsageError as error:
        raise MagicError(usage_line(error)) from None
    except KeyboardInterrupt:
        raise MagicError(
            "Interrupted. `%tpu list` shows the TPUs, `%tpu status` this notebook's kernels."
        ) from None
