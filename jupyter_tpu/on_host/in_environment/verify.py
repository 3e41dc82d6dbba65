"""What an environment has, and what JAX sees in it if it may start it: one line, as JSON."""

import json
import sys


def main():
    sys.path[:] = [each for each in sys.path if each]
    found = {"python": "%d.%d.%d" % sys.version_info[:3]}
    try:
        look(found, sys.argv[1] == "start")
    except Exception as error:
        found["error"] = "%s: %s" % (type(error).__name__, error)
    print("verified " + json.dumps(found))


def look(found, start):
    from importlib.metadata import distributions, requires
    from importlib.util import find_spec

    found["packages"] = {d.metadata["Name"].lower(): d.version for d in distributions()}
    import ipykernel  # noqa: F401 - a kernel needs them
    import zmq  # noqa: F401

    if not find_spec("jax"):
        return
    import jax

    found["jax"] = jax.__version__
    try:
        from packaging.requirements import Requirement

        wanted = [Requirement(line) for line in requires("jax") or () if line[:6] == "libtpu"]
        have = found["packages"].get("libtpu")
        found["libtpu_wanted"] = next((str(each.specifier) for each in wanted), "")
        found["libtpu_fits"] = have is None or all(have in each.specifier for each in wanted)
    except ImportError:
        pass
    if not start:
        return
    try:
        found["platform"] = jax.default_backend()
        found["devices"] = jax.local_device_count()
    except RuntimeError as error:
        found["backend_error"] = str(error)
    else:
        # JAX takes the CPU without an error if the TPU fails.
        errors = getattr(sys.modules.get("jax._src.xla_bridge"), "_backend_errors", {})
        found["backend_error"] = str(errors.get("tpu", "")) if errors else ""


if __name__ == "__main__":
    main()
