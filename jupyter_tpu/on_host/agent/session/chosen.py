"""What was chosen for the kernels of a TPU: where they are saved, and whether automatically.

A kernel gets it when it starts. Nothing heavy is imported before the kernel has been idle for a
while, or, for a bucket, in a thread: whether there is a session of the notebook takes a request.
"""

import asyncio
import json
import os
import sys
import threading

from .times import local_time

#: The environment variable that has the setting, as JSON.
VARIABLE = "JUPYTER_TPU_SESSIONS"


def chosen_setting(environment):
    """Its ``place`` ("": the host's disk), ``automatic`` and ``seconds``; None if there is none."""
    try:
        setting = json.loads(environment.get(VARIABLE, ""))
        return {
            "place": str(setting["place"]),
            "automatic": bool(setting["automatic"]),
            "seconds": float(setting["seconds"]),
        }
    except (ValueError, LookupError, TypeError):
        return None


class AutoStart:
    """Calls *start* when the kernel has first been idle for some seconds, and in its thread.

    start: returns why it can't, in a sentence, which is said before the next cell; "" if it has;
    None if that is known later: see `ended`.
    """

    def __init__(self, shell, seconds, start):
        self._shell, self._seconds, self._start = shell, seconds, start
        self._timer = None
        self._problem = ""
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)

    def stop(self):
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for event, do in (
            ("pre_run_cell", self._before_cell),
            ("post_run_cell", self._after_cell),
        ):
            if do in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, do)

    def _before_cell(self, info):
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._problem:
            print("The variables are not saved automatically. %s" % self._problem, file=sys.stderr)
            self.stop()

    def _after_cell(self, result):
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # not in a kernel's own loop
            return
        self._timer = loop.call_later(self._seconds, self._begin)

    def _begin(self):
        self._timer = None
        problem = self._start()
        if problem is not None:
            self.ended(problem)

    def ended(self, problem):
        """It has started, or can't because of a *problem*."""
        self._problem = problem
        if not problem:
            self.stop()


class SessionOffer:
    """Has a cell say that there is a session of the notebook: the first one after that is known.

    find: the time when it was saved, in seconds since the epoch; None if there is none.
    slow: whether it is called in a thread.
    """

    def __init__(self, shell, find, *, slow):
        self._shell, self._find = shell, find
        self._saved = None
        if slow:
            self._register()
            threading.Thread(target=self._look, daemon=True).start()
        else:
            self._look()
            if self._saved is not None:
                self._register()

    def _register(self):
        self._shell.events.register("pre_run_cell", self._before_cell)

    def _look(self):
        try:
            self._saved = self._find()
        except Exception:  # of the storage: the commands say it
            self._saved = None

    def withdraw(self):
        """It is not said any more."""
        if self._before_cell in self._shell.events.callbacks["pre_run_cell"]:
            self._shell.events.unregister("pre_run_cell", self._before_cell)

    def _before_cell(self, info):
        if "%tpu session" in info.raw_cell:
            self.withdraw()
        elif self._saved is not None:
            self.withdraw()
            print(
                "The variables of this notebook were saved at %s. To put them into this kernel: "
                "%%tpu session restore" % local_time(self._saved),
                file=sys.stderr,
            )


def file_time(path):
    """When a file was written, in seconds since the epoch; None if there is none."""
    try:
        return os.stat(os.path.expanduser(path)).st_mtime
    except OSError:
        return None
