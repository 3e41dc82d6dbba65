"""What the user's own programs log when a kernel of theirs is on a TPU."""

import subprocess
import sys

#: As papermill does, and a user who wants to know what watchfiles sees.
_PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
logging.getLogger("watchfiles").setLevel(logging.INFO)
import jupyter_tpu.files.sync, jupyter_tpu.kernels.provisioner
import asyncssh.logging
asyncssh.logging.logger.info("Requesting new SSH session")
asyncssh.logging.logger.warning("a warning")
logging.getLogger("watchfiles.main").info("2 changes detected")
"""


def test_libraries_do_not_fill_a_programs_log_unless_its_user_wants_that():
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr.splitlines() == ["asyncssh a warning", "watchfiles.main 2 changes detected"]
