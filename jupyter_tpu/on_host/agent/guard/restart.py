"""Starts the guard again after a restart of its host, or after it was killed.

Two lines in the user's crontab do that, before anybody connects. That needs no root; Google's
images have cron.

cron takes the home folder from the system's table of users, and the other lines are left as they
are. Source: crontab(5).
"""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import sys
from typing import List

from . import files

#: Seconds for crontab to answer.
CRONTAB_TIMEOUT = 10.0
#: When cron starts it; one that runs already is left alone.
WHEN = "@reboot", "*/5 * * * *"
#: What our lines end with; to the shell it is a comment.
_OURS = "# the guard of this TPU, by jupyter-tpu"


def enable(sources: str) -> str:
    """Has cron start the guard of the agent in *sources*; "" or why that can't be."""
    command = " ".join(map(shlex.quote, (sys.executable, sources, "guard")))
    log = shlex.quote(files.guard_path("log"))
    line = "%s >> %s 2>&1 %s" % (command, log, _OURS)
    return _replace(["%s %s" % (when, line.replace("%", "\\%")) for when in WHEN])


def disable() -> str:
    """Cron no longer starts the guard; "" or why that can't be."""
    return _replace([])


def _replace(ours: List[str]) -> str:
    """Has these be our lines; "" or why it can't be."""
    try:
        if os.path.expanduser("~") != pwd.getpwuid(os.getuid()).pw_dir:
            return "The user has another home folder than cron knows."
        process = _crontab("-l")
        if process.returncode and "no crontab for" not in process.stderr:
            return "crontab -l: %s" % process.stderr.strip()
        table = process.stdout.rstrip("\n") if process.returncode == 0 else ""
        before = table.split("\n") if table else []
        lines = [line for line in before if not line.endswith(_OURS)] + ours
        if lines == before:
            return ""
        written = _crontab("-", "".join(line + "\n" for line in lines))
        return "crontab: %s" % written.stderr.strip() if written.returncode else ""
    except KeyError:
        return "The user is not in the host's table of users."
    except (OSError, subprocess.SubprocessError) as error:
        return "crontab: %s" % error


def _crontab(argument: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["crontab", argument],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",  # the other lines are written back as they are
        env={**os.environ, "LC_ALL": "C"},
        timeout=CRONTAB_TIMEOUT,
    )
