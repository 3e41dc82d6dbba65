#!/usr/bin/env bash
# ploomber-engine 0.0.33: a notebook's kernelspec is not looked at; the cells run in the process of the
# command.
#
# A user notices: a notebook for a kernel on another machine, or of another environment, runs on this
# one, without a word.
# Seen: a notebook whose kernelspec does not exist is executed with exit code 0.
# Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check ploomber-engine==0.0.33 'setuptools<81' ipykernel
export PLOOMBER_STATS_ENABLED=false JUPYTER_DATA_DIR=$folder/data HOME=$folder
cat >"$folder/in.ipynb" <<'END'
{"cells": [{"cell_type": "code", "id": "a", "execution_count": null, "metadata": {}, "outputs": [],
            "source": "import os; print('ran in the process', os.getpid(), 'with', __name__)"}],
 "metadata": {"kernelspec": {"name": "not-there", "display_name": "Not there", "language": "python"}},
 "nbformat": 4, "nbformat_minor": 5}
END
cd "$folder"
"$folder/env/bin/ploomber-engine" in.ipynb out.ipynb >"$folder/log" 2>&1 || { tail -1 "$folder/log"; echo "it has changed"; exit 1; }
grep -o 'ran in the process [0-9]* with [a-z_]*' out.ipynb
