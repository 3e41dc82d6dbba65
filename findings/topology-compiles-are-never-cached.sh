#!/usr/bin/env bash
# jax 0.12.0.1 with libtpu 0.0.50.1: what is compiled for a TPU topology (jax.experimental.topologies,
# without a TPU) is written into JAX's persistent compilation cache, and can never be read from it.
#
# A user notices: compiling ahead of time takes as long the second time, with a warning, and the cache
# grows.
# Seen: the first process writes an entry; the second finds it, warns ("Error reading persistent
# compilation cache entry … must be constructed with a Client"), counts a miss and compiles again.
# Needs Python 3.12 (PYTHON names it) on Linux x86-64. Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check jax==0.12.0.1 libtpu==0.0.50.1
cat >"$folder/compile.py" <<'END'
import os
import sys
import warnings

import jax
import jax.monitoring
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

folder, expected_warnings = sys.argv[1], int(sys.argv[2])
jax.config.update("jax_compilation_cache_dir", folder)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
device = topologies.get_topology_desc("v5e:2x2", "tpu").devices[0]
shape = jax.ShapeDtypeStruct((512, 512), jnp.float32, sharding=SingleDeviceSharding(device))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    jax.jit(lambda a: a @ a).lower(shape).compile()
about_cache = [str(w.message) for w in caught if "persistent compilation cache" in str(w.message)]
entries = [name for name in os.listdir(folder) if name.endswith("-cache")]
misses = events.count("/jax/compilation_cache/cache_misses")
print(f"entries {len(entries)}, misses {misses}, hits {events.count('/jax/compilation_cache/cache_hits')}")
print(*(text[:160] for text in about_cache), sep="\n", end="\n" if about_cache else "")
assert (len(entries), misses, len(about_cache)) == (1, 1, expected_warnings), "it has changed"
END
for warnings in 0 1; do
  JAX_PLATFORMS=cpu TPU_SKIP_MDS_QUERY=1 "$folder/env/bin/python" "$folder/compile.py" "$folder/cache" "$warnings" 2>"$folder/log" ||
    { tail -3 "$folder/log"; exit 1; }
done
