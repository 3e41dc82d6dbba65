#!/usr/bin/env bash
# asyncssh 2.24.1 on Linux: `import asyncssh` runs ldconfig, the C compiler and the linker.
#
# A user notices: each command that speaks SSH starts some 20 ms later than its own work takes, more on
# a busy machine, and a tracer of processes shows gcc and ld where nothing is built.
# Seen: for its optional libraries (liboqs, Nettle) it calls ctypes.util.find_library when it is
# imported. Where a library is not there, that asks ldconfig, then links an empty program with the
# compiler, then asks the linker: 7 programs, in a process that imports nothing else. The same import
# runs none where ctypes.util.find_library finds nothing by itself.
# Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check asyncssh==2.24.1
cat >"$folder/runs.py" <<'END'
import ctypes.util, os, resource, sys

if sys.argv[1] == "nothing":
    ctypes.util.find_library = lambda name: None
programs = []
sys.addaudithook(lambda event, args: programs.append(args[0]) if event == "subprocess.Popen" else None)
import asyncssh

used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(*map(os.path.basename, programs))
print(f"{1000 * (used.ru_utime + used.ru_stime):.0f} ms of CPU in them", file=sys.stderr)
END
# A compiler and a linker that find nothing, where the machine has none.
for tool in gcc ld; do
  command -v "$tool" >/dev/null || { printf '#!/bin/sh\nexit 1\n' >"$folder/$tool"; chmod +x "$folder/$tool"; }
done
export PATH="$PATH:$folder"
with=$("$folder/env/bin/python" "$folder/runs.py" library)
without=$("$folder/env/bin/python" "$folder/runs.py" nothing)
echo "import asyncssh runs: $with"
echo "with a find_library that finds nothing: ${without:-nothing}"
case " $with " in *" gcc "*" ld "*) [ -z "$without" ] && exit 0 ;; esac
echo "CHANGED"
exit 1
