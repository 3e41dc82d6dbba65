#!/usr/bin/env bash
# jupyter-server-mcp 0.3.0 needs fastmcp 3, which needs mcp 1: `pip install 'mcp>=2'` beside Jupyter AI
# 3.2.0 replaces mcp without an error, and from the next start on Jupyter AI has no tools.
#
# A user notices: after installing another package that uses mcp 2, an assistant that could use tools
# yesterday has none. The only word is a line in the server's log.
# Seen: pip ends with exit code 0; importing the server extension fails.
# Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
pip() { "$folder/env/bin/python" -m pip --disable-pip-version-check "$@"; }
loads() { "$folder/env/bin/python" -c 'import jupyter_server_mcp.extension' 2>&1; }

pip install --quiet jupyter-server-mcp==0.3.0 'mcp<2'
loads
pip install --quiet mcp==2.3.0 && echo "pip installed mcp 2.3.0: exit code 0"
if said=$(loads); then echo "the extension loads: the behaviour has changed"; exit 1; fi
printf 'jupyter-server-mcp 0.3.0: %s\n' "${said##*$'\n'}"
