"""``%tpu checkpoint`` in a kernel on a host: a function that saves what must not be lost. A session
that is saved by itself is saved then, too.

Loaded by `ipython_kernel` in the environment's own Python. When Google announces that it is about
to stop the host, the keeper sends a request on the control channel (see `checkpoint_request`). Then
the function runs in a thread of its own, also during a running cell; how it went is published for
the keeper. A function that is chosen while the end is announced runs at once.
"""

import threading
import time

#: The type of the keeper's request, and of what is published about it.
KIND = "jupyter_tpu_checkpoint"
#: What saves the session, as its user would.
SESSION = "%tpu session save"


class CheckpointFunction:
    """The function that is chosen in IPython's *shell*, by its name. session: `%tpu session`."""

    def __init__(self, shell, session):
        self._shell = shell
        self._session = session
        self._name = ""
        self._request = None  # of the keeper, while the end of the host is announced
        self._running = threading.Lock()
        shell.kernel.control_handlers[KIND] = self._requested

    def command(self, words):
        """What `%tpu checkpoint` prints; None for a misuse."""
        if len(words) > 1:
            return None
        if words == ["off"]:
            self._name = ""
        elif words:
            try:
                self._find(words[0])
            except Exception as error:  # whatever the expression raises
                return "%s can't be the checkpoint function: %s" % (words[0], error)
            self._name = words[0]
            if self._request is not None:
                self._start(self._name, self._request, True)
                return "%s() runs now: it is announced that this TPU will be stopped." % self._name
        if not self._name:
            return "No function runs when Google stops this TPU. Choose one: %tpu checkpoint NAME"
        return (
            "%s() runs when Google announces that it will stop this TPU. A running cell continues."
            % self._name
        )

    def _find(self, name):
        """The function; looked up each time, because a cell may define it again."""
        function = eval(name, self._shell.user_ns)  # trainer.save, too
        if not callable(function):
            raise TypeError("it is not a function")
        return function

    def _requested(self, stream, ident, request):
        self._request = request if request["content"]["announced"] else None
        if self._request is not None:
            if self._name:
                self._start(self._name, request, False)
            if self._session.is_automatic:
                self._start(SESSION, request, True)

    def _start(self, name, request, after_another):
        # Not in the caller's thread: that of requests has to stay free for interrupts.
        arguments = (name, request, after_another)
        threading.Thread(target=self._run, args=arguments, daemon=True).start()

    def _run(self, name, request, after_another):
        if not self._running.acquire(blocking=after_another):
            return  # it runs already
        self._publish(request, name, "running", None, "")
        begun, error = time.monotonic(), ""
        try:
            if name == SESSION:
                self._session.save_now(request["content"].get("step", ""))
            else:
                self._find(name)()
        except BaseException as problem:
            error = ("%s: %s" % (type(problem).__name__, problem))[:1000]
        finally:
            self._running.release()
        seconds = round(time.monotonic() - begun, 1)
        self._publish(request, name, "failed" if error else "done", seconds, error)

    def _publish(self, request, name, state, seconds, error):
        kernel = self._shell.kernel
        what = name if name == SESSION else name + "()"
        content = {"what": what, "state": state, "seconds": seconds, "error": error}
        kernel.session.send(kernel.iopub_socket, KIND, content, parent=request)
