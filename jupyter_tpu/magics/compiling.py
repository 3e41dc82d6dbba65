"""``%%tpu compile``: compiles the cell's program for a TPU, on this computer."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

from .failures import MagicError

if TYPE_CHECKING:
    from ..jaxkit import CompileReport

_HELP = """Usage: %%tpu compile TYPE [OPTIONS]

  Compile a program for a TPU of that type, on this computer. No TPU is needed.

  The cell runs here. Its last line is a function and the shapes of its
  arguments: step, params, (1024, 512). The result is a report: does the
  program fit, and what does it need? TYPE is a type such as v5litepod-8.

Options, as in a call of jaxkit.compile_for:
  mesh={"data": -1}           Axes of the mesh and their sizes. -1: the rest.
  in_shardings=P("data")      Partition specs of the arguments.
  out_shardings=P()           Partition specs of the results.
  donate_argnums=0            Arguments whose memory the results may use.
  limits=CompileLimits(...)   Of time and memory, see jaxkit.CompileLimits."""
_FORM = "The cell's last line must be a function and the shapes of its arguments: step, (8, 4)"


def compile_cell(shell: Any, line: str, cell: str) -> CompileReport | None:
    """Runs *cell* in the notebook's namespace, and compiles the function in its last line.

    *line*: the accelerator type, then options of :func:`jaxkit.compile_for` as in a call:
    ``v5litepod-8 mesh={"data": -1}, in_shardings=P("data")``; evaluated after the cell. With
    ``--help`` it prints how to use it, and returns None.

    Raises `MagicError` for a cell of another form, what the cell raises, and the `TPUError` of
    `compile_for`.
    """
    accelerator_type, _, options = line.strip().partition(" ")
    if accelerator_type in ("-h", "--help"):
        print(_HELP)
        return None
    from ..jaxkit import compile_for
    from ..jaxkit.compile.compiler import quiet_libtpu

    if not accelerator_type:
        raise MagicError("Give an accelerator type, such as %%tpu compile v5litepod-8.")
    known = {
        name
        for name, parameter in inspect.signature(compile_for).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    call = _options(options, known)
    with quiet_libtpu():  # the cell may be the first to use jax
        value = _last_value(shell, cell)
    if not (isinstance(value, tuple) and value and callable(value[0])):
        # A function without arguments may stand alone.
        if not callable(value):
            raise MagicError(_FORM)
        value = (value,)
    function, *shapes = value
    keywords = eval(shell.compile(call, "<%%tpu compile>", "eval"), shell.user_ns)
    return compile_for(accelerator_type, function, *shapes, **keywords)


def _options(text: str, known: set[str]) -> ast.Expression:
    """``dict(<text>)``, checked to contain only known options."""
    try:
        tree = ast.parse(f"dict({text})", mode="eval")
    except SyntaxError:
        tree = None
    call = tree.body if tree is not None else None
    if (
        tree is None
        or not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Name)
        or call.args
        or any(keyword.arg is None for keyword in call.keywords)
    ):
        raise MagicError(
            'Write the options as in a call: mesh={"data": -1}, in_shardings=P("data")'
        )
    for keyword in call.keywords:
        if keyword.arg not in known:
            raise MagicError(
                f"%%tpu compile has no option {keyword.arg}; it has {', '.join(sorted(known))}."
            )
    return tree


def _last_value(shell: Any, cell: str) -> Any:
    """Runs the cell as IPython does; returns the value of its last line."""
    # The newline stands for the magic's line, so that line numbers are those of the page.
    code = "\n" + shell.transform_cell(cell)
    name = shell.compile.cache(code, shell.execution_count, raw_code=code)
    tree = shell.compile.ast_parse(code, filename=name)
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise MagicError(_FORM)
    last = ast.Expression(tree.body.pop().value)
    exec(shell.compile(tree, name, "exec"), shell.user_ns)
    return eval(shell.compile(last, name, "eval"), shell.user_ns)
