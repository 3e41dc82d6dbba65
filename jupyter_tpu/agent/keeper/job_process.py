"""The command of a job as a process: its output comes through two pipes."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Dict

from ..protocol import umask
from .owned_process import MARK, OwnedProcess


class JobProcess(OwnedProcess):
    """The command of a job, from its start to its last descendant.

    Parameters
    ----------
    spec: from the daemon: ``folder``, ``argv``, ``env`` (all variables), ``cwd``.

    Raises OSError if the command can't be started.
    """

    def __init__(self, spec: Dict[str, Any]) -> None:
        #: Where its stdout and stderr can be read; they don't block.
        self.pipes = {}
        ends = []
        try:
            for name in ("out", "err"):
                self.pipes[name], end = os.pipe()
                ends.append(end)
                os.set_blocking(self.pipes[name], False)
            popen = subprocess.Popen(
                spec["argv"],
                stdin=subprocess.DEVNULL,
                stdout=ends[0],
                stderr=ends[1],
                cwd=spec["cwd"],
                env={**spec["env"], MARK: spec["folder"]},
                start_new_session=True,
                **umask.of_login(),
            )
        except BaseException:
            for pipe in self.pipes.values():
                os.close(pipe)
            raise
        finally:
            for end in ends:
                os.close(end)
        super().__init__(popen)
