#!/usr/bin/env bash
# xprof 2.24.2: what it has computed of a run is kept in the run's folder, and used although traces of
# more hosts are there now.
#
# A user notices: the trace of a second host is in the folder, and the overview still counts one task.
# Seen: the first overview writes ALL_HOSTS.op_stats_v2.pb; with a second trace the answer is the same;
# without that file it counts two tasks.
# Needs Python 3.12 (PYTHON names it). Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check jax==0.12.0.1 xprof==2.24.2
cat >"$folder/overview.py" <<'END'
import glob
import os
import re
import shutil
import sys

import jax
import jax.numpy as jnp
from xprof.convert import raw_to_tool_data

top = sys.argv[1]
with jax.profiler.trace(top):
    jax.jit(lambda a: jnp.tanh(a @ a))(jnp.ones((300, 300))).block_until_ready()
[trace] = glob.glob(f"{top}/plugins/profile/*/*.xplane.pb")
run = os.path.dirname(trace)


def tasks():
    traces = sorted(glob.glob(f"{run}/*.xplane.pb"))
    # As the plugin for TensorBoard asks once it has opened a run.
    text, _ = raw_to_tool_data.xspace_to_tool_data(traces, "overview_page", {"use_saved_result": True})
    text = text.decode() if isinstance(text, bytes) else text
    return int(re.search(r'"task_count":"(\d+)', text)[1])


before = tasks()
shutil.copy(trace, f"{run}/second-host.xplane.pb")
with_second = tasks()
kept = glob.glob(f"{run}/ALL_HOSTS.*")
print("kept:", *map(os.path.basename, kept))
for path in kept:
    os.unlink(path)
print(f"tasks: {before} of one trace, {with_second} of two, {(again := tasks())} without what was kept")
assert (before, with_second, again) == (1, 1, 2), "it has changed"
END
JAX_PLATFORMS=cpu "$folder/env/bin/python" "$folder/overview.py" "$folder/logs" 2>"$folder/log" ||
  { tail -3 "$folder/log"; exit 1; }
