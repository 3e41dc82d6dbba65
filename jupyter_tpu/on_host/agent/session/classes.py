"""Classes of the notebook that JAX knows as pytrees. cloudpickle makes an empty class, and fills it
afterwards; what was said of the class to JAX is said again.
"""

import dataclasses
import sys

from . import rebuild


def reduced(kind, by_cloudpickle):
    """How a class is pickled, after cloudpickle's way; that may be NotImplemented: by its name."""
    if not isinstance(by_cloudpickle, tuple) or len(by_cloudpickle) != 6:
        return by_cloudpickle
    make, arguments, state, _, _, set_state = by_cloudpickle
    registry = getattr(sys.modules.get("jax._src.tree_util"), "_registry", {})
    if any(base in registry for base in kind.__mro__[1:]):  # the base's class registers it
        if type(kind).__module__.startswith("equinox."):
            make, arguments = rebuild.module_class, (make, arguments, *_equinox_fields(kind))
    elif kind in registry:
        entry = registry[kind]
        state, set_state = (set_state, state, entry.to_iter, entry.from_iter), rebuild.set_pytree
    return make, arguments, state, None, None, set_state


def _equinox_fields(kind):
    """The fields that Equinox has to know when the class is made: {name: options of `field`}. And
    whether it has an `__init__` of its own.
    """
    own = dataclasses.fields(kind)
    inherited = {name for base in kind.__mro__[1:] for name in vars(base).get(_FIELDS, ())}
    fields = {}
    for field in own:
        if field.name in inherited and field is not vars(kind)[_FIELDS].get(field.name):
            continue
        options = {"init": field.init, "repr": field.repr, "metadata": dict(field.metadata)}
        for name in ("default", "default_factory"):
            if getattr(field, name) is not dataclasses.MISSING:
                options[name] = getattr(field, name)
        fields[field.name] = options
    made_by_dataclass = kind.__init__.__code__.co_filename == "<string>"
    return fields, not made_by_dataclass


_FIELDS = "__dataclass_fields__"
