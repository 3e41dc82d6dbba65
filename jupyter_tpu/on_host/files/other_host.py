"""Another host of the same network, as the other end of a transfer."""

import contextlib
import json
import os
import sys

from ..agent.protocol.login_shell import skip_greeting
from .messages import TransferFailure, TransferPeer

#: Seconds in which its command has to begin, and in which ssh says why it failed. A connection that
#: does not come, or is lost, ends sooner by ssh's own limits. So this is for a login shell that
#: waits for its input, and has room for the busiest host.
START_LIMIT, GRACE_SECONDS = 300, 5
#: Bytes of its errors that are read, from their end.
LAST_ERRORS = 4096


@contextlib.contextmanager
def other_host(command, **request):
    """The peer behind *command*, which starts a Python there that reads this same program and
    *request*. What it writes to its errors is a part of LOST.
    """
    import subprocess  # not for a transfer from here: they take a third of a Python's start
    import tempfile
    import threading

    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        try:
            assert process.stdin is not None
            # A login shell may read its input.
            reading = threading.Timer(START_LIMIT, process.kill)
            reading.start()
            begun = skip_greeting(process.stdout)
            reading.cancel()
            if not begun:
                raise TransferFailure("LOST")
            program = sys.modules["__main__"].program
            try:
                process.stdin.write(program + json.dumps(request).encode() + b"\n")
            except OSError:
                raise TransferFailure("LOST") from None
            yield TransferPeer(process.stdout, process.stdin)
        except TransferFailure as error:
            if error.code == "LOST":
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_SECONDS)
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - LAST_ERRORS))
                lines = errors.read(LAST_ERRORS).decode("utf-8", "replace").strip().splitlines()
                error.message = lines[-1] if lines else ""
            raise
        finally:
            process.kill()
            process.wait()
