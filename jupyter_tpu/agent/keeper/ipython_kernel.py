"""What a keeper runs: ipykernel, but with an iopub socket that never drops.

ipykernel's iopub drops silently at 1000 messages that its reader has not taken. The keeper always
takes them, so here there is no such mark. Run as a script, in the environment's own Python; it must
not import anything else of the agent.

``ipython_kernel.py -f FILE`` is a kernel at once. ``ipython_kernel.py --warm MODULE…`` imports what
a kernel needs, and the modules, says so on its standard input, a socket, and waits there to be told
which kernel to be: file, folder and variables. Until then nothing of a kernel is set up, no profile
is read and nobody's code runs; so it becomes the same kernel as one that was started cold.
"""

import json
import os
import signal
import sys

#: What ipykernel imports while it starts; where one is missing, its version needs it not.
OWN = (
    "zmq",
    "ipykernel.kernelapp",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "tornado.queues",
    "sqlite3",
)
#: Names in a folder of packages that change when something is installed or removed.
MARKS = (".dist-info", ".egg-info", ".egg-link", ".pth")


def main() -> None:
    # An interrupt that comes before the kernel is ready for one must not end it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A script's folder comes first in sys.path; the user's modules are not there.
    del sys.path[0]
    if sys.argv[1] == "--warm":
        sys.argv[1:] = wait_warm(sys.argv[2:])

    import zmq
    from ipykernel.kernelapp import IPKernelApp

    class Application(IPKernelApp):
        name = "ipython-kernel"

        def _bind_socket(self, s, port):
            if s.type in (zmq.PUB, zmq.XPUB):
                s.sndhwm = 0
            return super()._bind_socket(s, port)

    Application.launch_instance()


def wait_warm(modules):
    """Imports, says ``{"folders", "installed", "problem"}`` and waits; returns ipykernel's words.

    Ends the process if whoever keeps it warm is gone.
    """
    import importlib
    import socket

    folders = [folder for folder in sys.path if os.path.isdir(folder)]
    said = {"folders": folders, "installed": installed(folders), "problem": ""}
    for name in (*OWN, *modules):
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever a module raises
            if name in modules:
                said["problem"] = "%s cannot be imported: %s" % (name, error)
    with socket.socket(fileno=os.dup(0)) as keeper:
        keeper.sendall(json.dumps(said).encode() + b"\n")
        with keeper.makefile("r", encoding="utf-8") as lines:
            line = lines.readline()
    if not line:
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    order = json.loads(line)
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    return ["-f", order["file"]]


def installed(folders):
    """A number that is another one when what is installed in *folders* has changed."""
    import zlib

    found = []
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                found += [
                    (entry.path, entry.stat().st_mtime_ns)
                    for entry in entries
                    if entry.name.endswith(MARKS)
                ]
        except OSError:
            continue
    return zlib.crc32(repr(sorted(found)).encode())


if __name__ == "__main__":
    main()
