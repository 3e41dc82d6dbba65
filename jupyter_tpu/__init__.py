"""Google Cloud TPUs as part of the notebook.

Each folder is one part, and its ``__init__.py`` says what it is for and exports its public names.
Which part may import which others is in setup.cfg.
"""

import sys
from typing import Any

if sys.platform == "win32":
    raise ImportError("jupyter-tpu does not support Windows. Use it in WSL 2.")

from .version import __version__ as __version__


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-tpu"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .server import TPUExtension

    return [{"module": "jupyter_tpu", "app": TPUExtension}]


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext jupyter_tpu``: the ``%tpu`` and ``%%tpu`` magics."""
    try:
        from .magics import load
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.magics":
            raise
        from IPython.core.error import UsageError

        # jaxkit's sources in an environment on a host
        raise UsageError(
            "This kernel runs on a TPU, so its cells need no %tpu. "
            "Load jupyter_tpu in a notebook with a kernel of your own machine."
        ) from None
    load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    from .magics import unload

    unload(ipython)
