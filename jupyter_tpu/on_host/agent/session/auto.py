"""Saves a session by itself when no cell has run for some seconds.

The snapshot is taken between cells; what is new is written in a thread. A new cell does not wait
for it: the save is given up, and the one before it stays. In a pod kernel host 0 looks at the
clock, and has the conductor ask all hosts to begin.
"""

import asyncio
import sys
import threading

from .hosts import Cancelled

#: Seconds that a save may take before the host is stopped.
FINAL_SECONDS = 25.0


class AutoSave:
    """From now on until `stop`.

    when_idle: called when no cell has run for some seconds; None: `begin`.
    """

    def __init__(self, shell, session, storage, name, seconds, note_saved, when_idle=None):
        self._shell, self._session, self._storage = shell, session, storage
        self._name, self._seconds, self._note_saved = name, seconds, note_saved
        self._when_idle = when_idle or self.begin
        self._timer = None
        self._save = None
        self._thread = None
        self._problem = ""
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)

    def stop(self):
        self._cancel()
        self._shell.events.unregister("pre_run_cell", self._before_cell)
        self._shell.events.unregister("post_run_cell", self._after_cell)

    def give_up(self):
        """Ends a save that has begun: another one follows."""
        self._cancel()
        if self._thread is not None:
            self._thread.join(FINAL_SECONDS)

    def save_now(self):
        """Saves in this thread, also while a cell runs; raises what it raises."""
        self.give_up()
        report = self._session.save(self._storage, self._name, kind="final")
        self._note_saved(self._storage, self._name, report)

    def _before_cell(self, info):
        self._cancel()
        problem, self._problem = self._problem, ""
        if problem:
            print("The variables could not be saved: %s" % problem, file=sys.stderr)

    def _after_cell(self, result):
        self._call_later()

    def _call_later(self):
        if self._session.hosts.index:
            return  # host 0 does, for all
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # not in a kernel's own loop
            return
        self._timer = loop.call_later(self._seconds, self._when_idle)

    def _cancel(self):
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._save is not None:
            self._save.cancel()

    def begin(self):
        """Saves now, in a thread."""
        if self._thread is not None and self._thread.is_alive():
            if self._session.hosts.count == 1:
                self._call_later()
                return
            self.give_up()  # all hosts begin, or none
        self._save = self._session.begin(self._storage, self._name)
        self._thread = threading.Thread(target=self._finish, args=(self._save,), daemon=True)
        self._thread.start()

    def _finish(self, save):
        try:
            self._note_saved(self._storage, self._name, save.finish())
            self._problem = ""
        except Cancelled:
            pass
        except Exception as error:  # of the storage: it is said before the next cell
            self._problem = " ".join(str(error).split())[:300]
