"""Runs on a host: unpacks the agent's archive, which is its input, and starts the agent."""

import filecmp
import os
import shutil
import sys
import tempfile

from ..agent.protocol.paths import BARE, base_folder
from ..calls import archive


def unpack(hash, data):
    """The folder of the agent with that *hash*, unpacked from *data* (`Bundle.data`).

    To a temporary folder, which is renamed, so that a half-written agent is never run. An agent
    that is there already keeps its folder if it is whole: another client may be starting it.
    """
    agents = os.path.join(base_folder(), "agent")
    umask = os.umask(0o077)
    try:
        os.makedirs(agents, mode=0o700, exist_ok=True)
        goal = os.path.join(agents, hash)
        unpacked = tempfile.mkdtemp(dir=agents)
        try:
            archive.unpack(data, unpacked)
            with open(os.path.join(unpacked, "python"), "w") as file:
                file.write(sys.executable)
            put_in_place(unpacked, goal)
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
    finally:
        os.umask(umask)
    return goal


def put_in_place(unpacked, goal):
    try:
        os.rename(unpacked, goal)
    except OSError:
        if not os.path.isdir(goal):
            raise
        if is_whole(goal, unpacked):
            os.replace(os.path.join(unpacked, "python"), os.path.join(goal, "python"))
        else:
            os.rename(goal, unpacked + ".old")
            os.rename(unpacked, goal)
            shutil.rmtree(unpacked + ".old", ignore_errors=True)


def is_whole(goal, unpacked):
    """Whether all files are there, but for the path of the Python."""
    for folder, _, names in os.walk(unpacked):
        for name in set(names) - {"python"}:
            new = os.path.join(folder, name)
            old = os.path.join(goal, os.path.relpath(new, unpacked))
            if not (os.path.isfile(old) and filecmp.cmp(new, old, shallow=False)):
                return False
    return True


def main():
    try:
        goal = unpack(sys.argv[1], sys.stdin.buffer.read())
    except OSError as error:
        sys.exit("errno %d: %s" % (error.errno, error) if error.errno else str(error))
    os.execv(sys.executable, [sys.executable, *BARE, goal, "up"])
