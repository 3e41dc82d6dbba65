"""Saves and restores the session of a kernel on a host when the keeper asks for it.

Loaded by `ipython_kernel` in the environment's own Python. The request comes on the control channel
(see `session_request`); it is carried out between two cells, which wait for it, and what became of
it is published for the keeper. The hosts of a pod kernel get it from their conductor, which host 0
asks for what has to begin by itself on all of them.
"""

import signal
import threading
import time

#: The type of the keeper's request, and of what is published about it.
KIND = "jupyter_tpu_session"
#: Seconds between two words about how far it is.
PROGRESS_SECONDS = 0.5
#: The states of a request that has ended.
ENDED = ("saved", "restored", "set", "empty", "cancelled", "failed")


class SessionRequests:
    """Those to the kernel of IPython's *shell*. session: `%tpu session`."""

    def __init__(self, shell, session):
        self._shell, self._session = shell, session
        self._running = False  # a cell
        self._waiting = []
        self._cancelled = set()
        self._task = None  # what can be cancelled of the request that is carried out
        session.report, session.ask = self._saved, self._ask
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)
        shell.kernel.control_handlers[KIND] = self._requested

    def _before_cell(self, info):
        self._running = True

    def _after_cell(self, result):
        self._running = False
        if self._waiting:
            self._call_soon()

    def _requested(self, stream, ident, request):
        content = request["content"]
        if content["do"] == "cancel":
            self._cancelled.add(content["id"])
            if self._task is not None and self._task[0] == content["id"]:
                self._task[1].cancel()
            return
        self._publish(request, state="waiting")
        self._waiting.append(request)
        self._call_soon()

    def _call_soon(self):
        loop = getattr(self._shell.kernel, "io_loop", None)
        if loop is not None:
            loop.add_callback(self._carry_out)

    def _carry_out(self):
        """In the thread of cells: a cell that does not await anything has ended."""
        while self._waiting and not self._running:
            request = self._waiting.pop(0)
            if request["content"]["id"] in self._cancelled:
                self._publish(request, state="cancelled")
                continue
            self._publish(request, state="running")
            self._publish(request, **self._outcome(request))

    def _outcome(self, request):
        def cancellable(task):
            self._task = content["id"], task

        said = [0.0]

        def moved(done, total):
            if time.monotonic() - said[0] > PROGRESS_SECONDS:
                said[0] = time.monotonic()
                self._publish(request, state="running", done=done, total=total)

        before, content = None, request["content"]
        self._session.moved = moved
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return self._session.requested(content, cancellable)
        except KeyboardInterrupt:
            return {"state": "cancelled"}
        except Exception as error:  # of the storage, or of the objects' own classes
            return {"state": "failed", "why": "%s: %s" % (type(error).__name__, error)}
        finally:
            self._task = None
            self._session.moved = lambda done, total: None
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def _saved(self, fields):
        """Publishes that the session was saved, whoever asked for it."""
        self._send({"saved": fields}, None)

    def _ask(self, do):
        """In a pod kernel, on host 0: has the conductor ask all hosts for it between two cells."""
        self._send({"wanted": do}, None)

    def _publish(self, request, **fields):
        if "why" in fields:
            fields["why"] = " ".join(fields["why"].split())[:1000]
        outcome = {"id": request["content"]["id"], **fields}
        self._send({"outcome": outcome}, request)

    def _send(self, content, parent):
        kernel = self._shell.kernel
        kernel.session.send(kernel.iopub_socket, KIND, content, parent=parent)
