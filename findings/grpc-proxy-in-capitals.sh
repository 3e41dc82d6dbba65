#!/usr/bin/env bash
# grpcio 1.85.3: a proxy that is set as HTTPS_PROXY is not used, as https_proxy it is.
#
# A user notices: behind a company's proxy the login works (requests 2.34.2 reads both spellings), and
# every call by gRPC, such as Cloud TPU's, waits until its deadline.
# Seen: `requests` asks the proxy with either name; `grpc.secure_channel` asks it only with the
# lower-case one, and connects directly with the other.
# Exits with 0 while this is so, with 1 when it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.3 requests==2.34.2
cat >"$folder/proxy.py" <<'END'
import os, socket, subprocess, sys, threading

GRPC = """
import grpc, sys
channel = grpc.secure_channel("127.0.0.2:9", grpc.ssl_channel_credentials())
try:
    grpc.channel_ready_future(channel).result(timeout=5)
except grpc.FutureTimeoutError:
    pass
"""
REQUESTS = """
import requests
try:
    requests.get("https://127.0.0.2:9", timeout=5)
except requests.RequestException:
    pass
"""


def asked(program: str, variable: str) -> bool:
    """Whether *program* asks the proxy that *variable* names."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        lines = []

        def serve() -> None:
            try:
                while True:
                    client, _ = proxy.accept()
                    with client:
                        lines.append(client.recv(4096))
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        names = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "grpc_proxy", "no_grpc_proxy")
        environment = {k: v for k, v in os.environ.items() if k.lower() not in names}
        environment[variable] = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        subprocess.run([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
        return any(line.startswith(b"CONNECT 127.0.0.2:9 ") for line in lines)


seen = {
    (name, variable): asked(program, variable)
    for name, program in (("grpc", GRPC), ("requests", REQUESTS))
    for variable in ("https_proxy", "HTTPS_PROXY")
}
for (name, variable), answer in seen.items():
    print(f"{name}: {variable}: {'asks the proxy' if answer else 'connects directly'}")
assert list(seen.values()) == [True, False, True, True], "the behaviour has changed"
END
"$folder/env/bin/python" "$folder/proxy.py"
