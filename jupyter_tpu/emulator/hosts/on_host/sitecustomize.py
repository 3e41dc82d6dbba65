"""On an emulated host: JAX's coordinator listens at the address that a program names, and a process
without chips has one device.

Hosts share the machine's network, so JAX_COORDINATOR_BIND_ADDRESS keeps the coordinators of pods
apart. JAX would also take it for a program that names another port, whose hosts then never meet.
"""

import os
import sys

VARIABLE = "JAX_COORDINATOR_BIND_ADDRESS"
_MODULE = "jax._src.distributed"


class _Distributed:
    """Finds that module of JAX as others do, and changes it when it is loaded."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != _MODULE:
            return None
        sys.meta_path.remove(cls)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _listen_where_asked(module.State)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _listen_where_asked(state):
    import functools
    import inspect

    initialize = state.initialize
    signature = inspect.signature(initialize)

    @functools.wraps(initialize)
    def at_its_address(*args, **options):
        given = signature.bind(*args, **options).arguments
        address = given.get("coordinator_address") or os.environ.get("JAX_COORDINATOR_ADDRESS")
        if address and not given.get("coordinator_bind_address") and _USUAL:
            given["coordinator_bind_address"] = address
        return initialize(**given)

    state.initialize = at_its_address


def _run_the_next():
    """This one hides a sitecustomize of the environment."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec(__name__, [path for path in sys.path if path != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if os.environ.get("TPU_VISIBLE_CHIPS") == "":
    os.environ["JAX_NUM_CPU_DEVICES"] = "1"
#: Whether the variable is the emulator's.
_USUAL = os.environ.get(VARIABLE, "").endswith(":8482")
if _USUAL:
    sys.meta_path.insert(0, _Distributed)
_run_the_next()
