"""What is said to whoever called, and what went wrong."""

import json
import sys
import threading


class HostError(Exception):
    def __init__(self, reason, message, hint=""):
        super().__init__(message)
        self.payload = [reason, message, hint]


_output_lock = threading.Lock()


def emit(**what):
    with _output_lock:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def disk_full(what):
    return HostError(
        "DISK_FULL",
        "The disk is full: %s." % what,
        "Delete what is not needed there; `du -sh ~/* ~/.cache` shows what is big.",
    )
