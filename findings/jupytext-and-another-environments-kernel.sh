#!/usr/bin/env bash
# jupytext 1.19.6: one kernelspec whose kernel provisioner is not installed stops
# `--set-kernel -`, whichever kernel it would have chosen; and the kernel "of this Python" is the first
# one whose argv[0] is this Python, whatever that runs.
#
# A user notices: a package in one environment adds a kernel for all of the user's environments (as
# many remote kernels do), and in another environment scripts can no longer be opened as notebooks.
# Seen: NoSuchKernel of a kernel that nobody asked for, with jupyter_client 8.10.0; a kernel that starts
# something else is chosen before ipykernel's own, whose argv[0] is "python".
# Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export JUPYTER_DATA_DIR=$folder/data JUPYTER_CONFIG_DIR=$folder/config IPYTHONDIR=$folder/ipython
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check \
  jupytext==1.19.6 jupyter_client==8.10.0 ipykernel==7.4.0
spec() { # NAME METADATA
  mkdir -p "$JUPYTER_DATA_DIR/kernels/$1"
  cat >"$JUPYTER_DATA_DIR/kernels/$1/kernel.json" <<END
{"argv": ["$folder/env/bin/python", "-m", "elsewhere", "-f", "{connection_file}"],
 "display_name": "$1", "language": "python", "metadata": $2}
END
}
converted() {
  echo 'print(1)' >"$folder/plain.py"
  (cd "$folder" && "$folder/env/bin/jupytext" --set-kernel - --to notebook plain.py 2>&1)
}

spec a-remote-kernel '{}'
said=$(converted)
printf 'one kernel more: %s\n' "$(grep -i 'kernel' <<<"$said" | head -1)"
grep -q 'a-remote-kernel' <<<"$said" || { echo "it is not chosen: the behaviour has changed"; exit 1; }
spec a-remote-kernel '{"kernel_provisioner": {"provisioner_name": "of-another-environment"}}'
if said=$(converted); then echo "it is left out: the behaviour has changed"; exit 1; fi
printf 'without its provisioner: %s\n' "${said##*$'\n'}"
grep -q 'NoSuchKernel' <<<"$said"
