"""A Python's description of itself. It reads what is installed, and imports nothing of it.

It may be an old Python.
"""

import json
import os
import sys


def main():
    sys.path[:] = [each for each in sys.path if each]
    import sysconfig

    site = sysconfig.get_path("purelib")
    owned = os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))
    venv = sys.prefix != getattr(sys, "base_prefix", sys.prefix)
    found = {
        "prefix": sys.prefix,
        "kind": kind(venv),
        "version": "%d.%d.%d" % sys.version_info[:3],
        "ipykernel": version("ipykernel"),
        "jax": version("jax"),
        "installable": bool(venv or not owned) and os.access(site, os.W_OK),
    }
    print("described " + json.dumps(found))


def kind(venv):
    if venv:
        return "venv"
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return "conda"
    return "uv" if "/uv/python/" in sys.prefix else "system"


def version(name):
    try:
        from importlib.metadata import version

        return version(name) or ""
    except ImportError:
        return ""


if __name__ == "__main__":
    main()
