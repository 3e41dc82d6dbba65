"""The guard after a restart of its host: a line in the user's crontab starts it, before anybody
connects. That needs no root; Google's images have cron.

cron takes the home folder from the system's table of users, and the other lines are left as they
are. Source: crontab(5).
"""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import sys
from typing import Optional

from . import files

#: Seconds for crontab to answer.
CRONTAB_TIMEOUT = 10.0
#: What our line ends with; to the shell it is a comment.
_OURS = "# the guard of this TPU, by jupyter-tpu"


def enable(sources: str) -> str:
    """Has the guard of the agent in *sources* start with the host; "" or why that can't be."""
    command = " ".join(map(shlex.quote, (sys.executable, sources, "guard")))
    log = shlex.quote(files.guard_path("log"))
    line = "@reboot %s > %s 2>&1 %s" % (command, log, _OURS)
    return _replace(line.replace("%", "\\%"))


def disable() -> str:
    """The guard no longer starts with the host; "" or why that can't be."""
    return _replace(None)


def _replace(line: Optional[str]) -> str:
    """Has this be our line, or none; "" or why it can't be."""
    try:
        if os.path.expanduser("~") != pwd.getpwuid(os.getuid()).pw_dir:
            return "The user has another home folder than cron knows."
        found = _crontab("-l")
        if found.returncode and "no crontab for" not in found.stderr:
            return "crontab -l: %s" % found.stderr.strip()
        before = found.stdout.splitlines() if found.returncode == 0 else []
        lines = [each for each in before if not each.endswith(_OURS)] + ([line] if line else [])
        if lines == before:
            return ""
        written = _crontab("-", "".join(each + "\n" for each in lines))
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
        universal_newlines=True,
        env={**os.environ, "LC_ALL": "C"},
        timeout=CRONTAB_TIMEOUT,
    )
