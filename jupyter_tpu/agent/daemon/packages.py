"""The packages that were asked for in the environments of this host.

Each environment has a file of them (``environment.on_host.packages``), which connections and
kernels write. They are asked for at each poll, so a file is read again only when it has changed.
"""

from __future__ import annotations

import glob
import json
import os
from typing import Any, Dict

from ..protocol.paths import base_folder

_FILE = "jupyter-tpu-packages.json"


class RequestedPackages:
    """{environment: {"revision", "packages"}} of all environments that jupyter-tpu created."""

    def __init__(self) -> None:
        self._read: Dict[str, Any] = {}  # by path: when it was written, and its content

    def all(self) -> Dict[str, Dict[str, Any]]:
        packages, read = {}, {}
        pattern = os.path.join(glob.escape(base_folder()), "environments", "*", _FILE)
        for path in glob.glob(pattern):
            try:
                written = os.stat(path).st_mtime_ns
                known = self._read.get(path)
                if known is None or known[0] != written:
                    with open(path, encoding="utf-8") as file:
                        state = json.load(file)
                    fields = {"revision": state["revision"], "packages": state["packages"]}
                    known = (written, fields)
            except (OSError, ValueError, KeyError, TypeError):
                continue  # removed meanwhile
            read[path] = known
            packages[os.path.basename(os.path.dirname(path))] = known[1]
        self._read = read
        return packages
