#!/usr/bin/env bash
# jax 0.12.0.1: with jax.distributed, only process 0 writes into the persistent compilation cache, also
# what another process compiles for its own devices, and also where each host has a folder of its own.
#
# A user notices: after a restart, host 0 of a pod begins at once, and waits for the others, which
# compile everything again.
# Seen: two processes, two folders, run twice: process 0 has hits the second time, process 1 has none,
# and its folder is empty.
# Needs Python 3.12 (PYTHON names it). Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check jax==0.12.0.1
cat >"$folder/process.py" <<'END'
import os
import sys

import jax
import jax.monitoring
import jax.numpy as jnp

number, port, folder = int(sys.argv[1]), sys.argv[2], f"{sys.argv[3]}/{sys.argv[1]}"
jax.config.update("jax_compilation_cache_dir", folder)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.distributed.initialize(f"127.0.0.1:{port}", 2, number)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.split("/")[-1]))
jax.jit(lambda a: jnp.tanh(a) @ a)(jnp.ones((64, 64))).block_until_ready()
jax.distributed.shutdown()
entries = os.listdir(folder) if os.path.isdir(folder) else []
print(bool(entries), "cache_hits" in events)
END
export JAX_PLATFORMS=cpu
port() { "$folder/env/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
for _ in first second; do
  port=$(port)
  "$folder/env/bin/python" "$folder/process.py" 1 "$port" "$folder" >"$folder/said1" 2>"$folder/log" &
  "$folder/env/bin/python" "$folder/process.py" 0 "$port" "$folder" >"$folder/said0" 2>"$folder/log0" || { tail -3 "$folder/log0"; exit 1; }
  wait $! || { tail -3 "$folder/log"; exit 1; }
done
for number in 0 1; do
  read -r written hit <"$folder/said$number"
  echo "process $number: entries in its folder: $written, found on the second run: $hit"
done
[ "$(cat "$folder/said0")" = "True True" ] && [ "$(cat "$folder/said1")" = "False False" ] || { echo "it has changed"; exit 1; }
