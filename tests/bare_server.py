"""Options of a Jupyter server with no extension but ours: the others take half of its start."""

from __future__ import annotations

OTHERS = ("jupyterlab", "jupyter_lsp", "notebook_shim", "jupyter_server_terminals")
BARE = [f"--ServerApp.jpserver_extensions={name}=False" for name in OTHERS]
