"""The user's project folder on hosts: compared, planned, sent and fetched."""

from .bases import Bases
from .local import LocalProject, size_text
from .outcome import HostOutcome, SyncOptions, SyncOutcome
from .sync import PULL_STEPS, PUSH_STEPS, pull, push
from .watcher import Watcher

__all__ = [
    "PULL_STEPS",
    "PUSH_STEPS",
    "Bases",
    "HostOutcome",
    "LocalProject",
    "SyncOptions",
    "SyncOutcome",
    "Watcher",
    "pull",
    "push",
    "size_text",
]
