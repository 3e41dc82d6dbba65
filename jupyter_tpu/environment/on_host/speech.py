"""What is said to whoever called, and what went wrong."""

import json
import sys
import threading


class Problem(Exception):
    def __init__(self, reason, message, hint=""):
        super().__init__(message)
        self.told = [reason, message, hint]


_saying = threading.Lock()


def say(**what):
    with _saying:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def full_disk(what):
    return Problem(
        "DISK_FULL",
        "The disk is full: %s." % what,
        "Delete what is not needed there; `du -sh ~/* ~/.cache` shows what is big.",
    )
