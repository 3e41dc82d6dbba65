"""The output protocol: log lines, progress, results and errors."""

import json
import sys
import threading


class HostError(Exception):
    """An error for the caller; *reason* is one of jupyter_tpu.errors.Reason."""

    def __init__(self, reason, message, hint=""):
        super().__init__(message)
        self.payload = [reason, message, hint]


_output_lock = threading.Lock()
#: For a person instead of a program: log lines as they are, and nothing else.
plain = False


def emit(**payload):
    if plain and "log" not in payload:
        return
    line = payload["log"] if plain else json.dumps(payload, ensure_ascii=False)
    with _output_lock:
        # A host's names may have bytes that are no characters.
        sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


def unreachable(message):
    """The error of a host that can't download."""
    hint = "Check whether the host can reach it: its network, proxy and certificates."
    return HostError("ENVIRONMENT", message, hint)


def disk_full(detail):
    return HostError(
        "DISK_FULL",
        "The disk is full: %s." % detail,
        "Delete what is not needed there. `du -sh ~/* ~/.cache` shows what is big.",
    )
