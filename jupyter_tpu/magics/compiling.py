"""``%%tpu compile``: what a TPU's compiler says of the cell's program, asked on this machine."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

from .show import MagicError

if TYPE_CHECKING:
    from ..jaxkit import CompileReport

_FORM = "The cell's last line has to be the function and the shapes it is called with: step, (8, 4)"


def compile_cell(shell: Any, line: str, cell: str) -> CompileReport:
    """Runs *cell* in the notebook's namespace and compiles what its last line names.

    *line*: the type of TPU, then options of :func:`jaxkit.compile_for` as they stand in a call:
    ``v5litepod-8 mesh={"data": -1}, in_shardings=P("data")``; evaluated after the cell.

    Raises `MagicError` for a cell of another form, what the cell raises, and what `compile_for`
    does (`TPUError`).
    """
    from ..jaxkit import compile_for

    kind, _, options = line.strip().partition(" ")
    if not kind:
        raise MagicError("For which type of TPU? %%tpu compile v5litepod-8, for example.")
    known = {
        name
        for name, parameter in inspect.signature(compile_for).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    call = _options(options, known)
    value = _last_value(shell, cell)
    if not (isinstance(value, tuple) and value and callable(value[0])):
        # A function without arguments may stand alone.
        if not callable(value):
            raise MagicError(_FORM)
        value = (value,)
    function, *shapes = value
    given = eval(shell.compile(call, "<%%tpu compile>", "eval"), shell.user_ns)
    return compile_for(kind, function, *shapes, **given)


def _options(text: str, known: set[str]) -> ast.Expression:
    """``dict(<text>)``, once it is sure that it has nothing but known options."""
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
            'After the type stand options as in a call: mesh={"data": -1}, in_shardings=P("data")'
        )
    for keyword in call.keywords:
        if keyword.arg not in known:
            raise MagicError(
                f"%%tpu compile has no option {keyword.arg}; it has {', '.join(sorted(known))}."
            )
    return tree


def _last_value(shell: Any, cell: str) -> Any:
    """Runs the cell as IPython would; what its last line evaluates to."""
    # The first line of the cell is the magic's: with it, lines have the numbers of the page.
    code = "\n" + shell.transform_cell(cell)
    name = shell.compile.cache(code, shell.execution_count, raw_code=code)
    tree = shell.compile.ast_parse(code, filename=name)
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise MagicError(_FORM)
    last = ast.Expression(tree.body.pop().value)
    exec(shell.compile(tree, name, "exec"), shell.user_ns)
    return eval(shell.compile(last, name, "eval"), shell.user_ns)
