"""Runs on a host, as an argument of its Python: becomes the user's shell with clean variables. Its
own argument is the shell's command, if there is one.
"""

import os
import sys

from ..agent.protocol.process_env import login_environment


def main():
    environment = login_environment()
    shell = environment.get("SHELL") or "/bin/sh"
    os.execve(shell, [shell] + ["-c"] * (len(sys.argv) - 1) + sys.argv[1:], environment)
