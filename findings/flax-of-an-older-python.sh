#!/usr/bin/env bash
# flax 0.12.8, the newest for Python 3.11, installs beside jax 0.12.0.1 (Python 3.12 or newer) without
# a word, and `from flax import nnx` fails: jax.experimental.hijax has no HiPrimitive any more.
#
# A user notices: versions that were locked on a laptop with Python 3.11 are installed on a host with
# a newer one, pip and `pip check` say that all is well, and the first cell fails.
# Seen: pip installs both, `pip check` finds no broken requirements, the import raises ImportError or
# AttributeError with "HiPrimitive"; flax 0.12.12 works with the same jax.
# Needs Python 3.12 (PYTHON names it). Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/env"
pip() { "$folder/env/bin/python" -m pip --disable-pip-version-check "$@"; }
imports() { JAX_PLATFORMS=cpu "$folder/env/bin/python" -c 'from flax import nnx; print("nnx", nnx.Linear)' 2>&1; }

pip install --quiet jax==0.12.0.1 jaxlib==0.12.0 flax==0.12.8
pip check
if said=$(imports); then echo "flax 0.12.8 works: the behaviour has changed"; exit 1; fi
printf 'flax 0.12.8: %s\n' "${said##*$'\n'}"
case $said in *HiPrimitive*) ;; *) echo "another error: the behaviour has changed"; exit 1 ;; esac
pip install --quiet jax==0.12.0.1 flax==0.12.12
printf 'flax 0.12.12: %s\n' "$(imports)"
