#!/usr/bin/env bash
# uv 0.13.9 and `jax[tpu]` for Linux with glibc 2.28 to 2.30 (RHEL 8, Debian 10): JAX 0.5.2 of 2025.
#
# A user notices: on one machine a new environment has an old JAX, without an error or a warning, while
# the same line gives today's JAX on another machine with the same Python.
# Seen: wheels of jax and jaxlib install on glibc 2.27 and newer, but libtpu's since 0.0.11 are for
# glibc 2.31. The resolver goes back through the versions of JAX to the first whose libtpu has a wheel.
# Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
resolve() {
  echo 'jax[tpu]' | "$folder/env/bin/uv" pip compile - --quiet --no-header --no-annotate --python-version 3.13 \
    --exclude-newer 2026-11-29 --python-platform "x86_64-manylinux_$1" | grep -E '^(jax|libtpu)\b' | xargs
}
new=$(resolve 2_31) old=$(resolve 2_28)
echo "glibc 2.31: $new"
echo "glibc 2.28: $old"
[[ $new == jax*==0.12.* && $old == jax*==0.5.2* ]] && exit 0
echo "CHANGED"
exit 1
