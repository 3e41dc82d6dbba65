"""The user's project folder on hosts: compared, planned, sent and fetched."""

from .bases import Bases
from .local import LocalProject
from .location import ProjectLocation, find_project, project_at
from .mirror import Mirror
from .mirror_news import MirrorNews
from .mirrors import Mirrors, default_mirrors, remote_folder
from .outcome import HostOutcome, MirrorHost, SyncOptions, SyncOutcome
from .sync import PULL_STEPS, PUSH_STEPS, pull, push
from .watcher import Watcher, retry_after
