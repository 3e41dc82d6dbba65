"""What a host's Python does: one call, read from its input."""

import contextlib
import json
import os
import sys

from jupyter_tpu.agent.protocol.login_shell import skip_greeting

from .protocol import CopyFailure, Peer, Reports, decoded, failure, from_home
from .receiver import Receiver
from .sender import Listing, forget, load_list, save_list, send

#: Seconds in which the command has to begin, and in which ssh says why it failed.
START_LIMIT, GRACE = 30, 5


def forward(program, list_id, targets, command, report, **settings):
    """Sends what a list has to another host, whose Python *command* starts; it reads *program*.

    settings: those of its `Receiver`.
    """
    import subprocess  # not for a copy from here: they take a third of a Python's start
    import tempfile
    import threading

    listing = load_list(list_id)
    request = {"call": "receive", "destination": targets, "list_id": list_id, **settings}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        try:
            assert process.stdin is not None
            reading = threading.Timer(
                START_LIMIT, process.kill
            )  # a login shell that reads its input
            reading.start()
            begun = skip_greeting(process.stdout)
            reading.cancel()
            if not begun:
                raise CopyFailure("LOST")
            try:
                process.stdin.write(program + json.dumps(request).encode() + b"\n")
            except OSError:
                raise CopyFailure("LOST") from None
            return send(Peer(process.stdout, process.stdin), listing, report)
        except CopyFailure as error:
            if error.code == "LOST":
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
                errors.seek(0)
                lines = errors.read().decode("utf-8", "replace").strip().splitlines()
                error.message = lines[-1] if lines else ""
            raise
        finally:
            process.kill()
            process.wait()


def main():
    reader, writer = sys.stdin.buffer, sys.stdout.buffer
    request = json.loads(reader.readline())
    call = request.pop("call")
    peer = Peer(reader, writer)
    try:
        if call == "receive":
            Receiver(peer, report=lambda *_: None, **request).receive()
        elif call == "send":
            listing = Listing([from_home(path) for path in request["sources"]]).walk()
            send(peer, listing, lambda *_: None)
        elif call == "list":
            listing = Listing([from_home(path) for path in request["sources"]]).walk()
            save_list(request["list_id"], listing.tops, listing.entries)
            peer.send(result={"targets": [decoded(top) for top in listing.tops]})
        elif call == "forward":

            def report(done, total):
                peer.send(done=done, total=total)
                peer.flush()

            program = sys.modules["__main__"].program
            peer.send(result=forward(program, report=Reports(report), **request))
        elif call == "forget":
            forget(request["list_id"])
            peer.send(result={})
        peer.flush()
    except (CopyFailure, OSError) as error:
        copy_failure = (
            error if isinstance(error, CopyFailure) else failure(error, error.filename or b"")
        )
        try:
            peer.send(error=vars(copy_failure))
            peer.flush()
        except CopyFailure:
            os._exit(1)  # no one reads, so Python's own flush would fail, too
