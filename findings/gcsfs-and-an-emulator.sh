#!/usr/bin/env bash
# gcsfs 2026.10.1: with an emulator of Cloud Storage, each operation begins with a wait of a minute.
#
# A user notices: tests with STORAGE_EMULATOR_HOST (fake-gcs-server, or any other) that took seconds
# hang. Nothing is wrong with what the emulator answers: the request comes a minute later.
# Seen: gcsfs asks for the type of the bucket by gRPC over TLS, at the emulator's port although that is
# http://, tries it again for 60 s, and does not remember the failure. With
# GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT=false it does not ask.
# Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check gcsfs==2026.10.1
cat >"$folder/emulator.py" <<'END'
import http.server, os, subprocess, sys, threading, time

PROGRAM = """
import gcsfs
gcsfs.GCSFileSystem(project="p", token="anon").pipe("bucket/name", b"content")
"""


class Emulator(http.server.BaseHTTPRequestHandler):
    """Takes every upload."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Emulator)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{server.server_port}"}


def seconds(variables: dict[str, str]) -> float:
    """How long a program needs that writes one small object."""
    begun = time.monotonic()
    environment = {**os.environ, **address, **variables}
    subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, stderr=subprocess.DEVNULL
    )
    return time.monotonic() - begun


asking = seconds({})
silent = seconds({"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"})
print(f"one small object: {asking:.0f} s, with GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT=false {silent:.0f} s")
sys.exit(0 if asking - silent > 45 else 1)
END
"$folder/env/bin/python" "$folder/emulator.py"
