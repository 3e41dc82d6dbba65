"""What the pickles of a session name: functions that make again what Python can't pickle.

Their names are part of the format.
"""

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
