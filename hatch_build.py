"""Builds the frontend for production, and the translations, whenever a distribution is built.

An sdist carries the built frontend, so that installing from it takes no Node.js, and the
documentation site that `make docs` has built, because that needs this package installed. An
editable install has no frontend: `make setup` builds it for development and links it into the
environment.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "jupyter_tpu/labextension"
INSTALLED = "share/jupyter/labextensions/jupyter-tpu"
SITE = "site/index.html"


class Frontend(BuildHookInterface):
    """Called by hatchling before it collects the files of an sdist or a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._compile_catalogues(build_data)
        if not Path(self.root, "PKG-INFO").is_file():  # not an unpacked sdist
            self._build()
        if self.target_name == "sdist" and not Path(self.root, SITE).is_file():
            self.app.display_warning("The sdist has no documentation site: run `make docs` before.")
        if self.target_name == "wheel":
            # Installed as data only: JupyterLab looks there, and a second copy would be idle.
            build_data["shared_data"][BUILT] = INSTALLED
            build_data["shared_data"]["install.json"] = f"{INSTALLED}/install.json"

    def _compile_catalogues(self, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(self.root, "scripts")))
        from compile_catalogues import compile_catalogues

        for path in compile_catalogues(Path(self.root, "jupyter_tpu", "locale")):
            build_data["artifacts"].append(path.relative_to(self.root).as_posix())

    def _build(self) -> None:
        npm = shutil.which("npm")
        if npm is None:
            sys.exit("jupyter-tpu: building the frontend needs Node.js 20 or newer with npm.")
        if not Path(self.root, "node_modules").is_dir():
            subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit"], cwd=self.root, check=True)
        subprocess.run([npm, "run", "--silent", "build:prod"], cwd=self.root, check=True)
