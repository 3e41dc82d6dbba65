"""What the pickles of a session name: functions that make again what Python can't pickle.

Their names are part of the format.
"""

import contextlib
import dataclasses
import importlib
import types


def by_name(module, name):
    """A module's function or class, such as "jax.nn" and "relu"."""
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def cell():
    """An empty cell of a closure. Functions that share a variable share it."""
    return types.CellType()


def set_cell(cell, contents):
    cell.cell_contents = contents[0]


def function(code, namespace, name, closure):
    """A function of the notebook. Its global variables are the notebook's."""
    return types.FunctionType(code, namespace, name, None, closure)


def set_function(function, state):
    for name, value in state.items():
        setattr(function, name, value)


def module_class(make, arguments, fields, has_init):
    """A class of Equinox, whose fields JAX learns when it is made. *arguments* of cloudpickle's
    *make*; the fourth has what the class begins with.
    """
    start = {name: dataclasses.field(**options) for name, options in fields.items()}
    start["__annotations__"] = dict.fromkeys(fields, "object")
    if has_init:
        start["__init__"] = _init
    arguments = list(arguments)
    arguments[3] = {**arguments[3], **start}
    return make(*arguments)


def _init(self):
    """Until the class has its own."""


def set_pytree(kind, state):
    """Fills a class, and has JAX know it as a pytree."""
    import jax

    set_state, contents, to_iter, from_iter = state
    set_state(kind, contents)
    with contextlib.suppress(ValueError):  # this kernel has had the class before
        jax.tree_util.register_pytree_node(kind, to_iter, from_iter)


def loader_iterator(loader, state):
    """An iterator over a `DataLoader` of Grain, where it was."""
    iterator = iter(loader)
    iterator._validate_state = False  # by what repr() says of the source, which may be an address
    iterator.set_state(state)
    return iterator
