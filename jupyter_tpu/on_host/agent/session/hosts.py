"""The hosts of a pod kernel decide together, by the key-value store of JAX's coordinator.

Each host runs the same code. A decision has a name that is the same on all hosts, and new each
time: each sends a value, host 0 decides, and all get the decision or all raise the same error.
"""

import base64
import contextlib
import json
import time
import zlib

from .storage import SessionError

#: Seconds in which all hosts have to begin with what they do together.
ARRIVE_SECONDS = 120.0
#: Milliseconds of one wait: between two, an interrupt or a new cell is noticed.
_WAIT_MS = 500
_FOLDER = "jupyter_tpu_session/"


class Cancelled(Exception):
    """A save was given up; the one before it stays."""


class OneHost:
    """The only host of a kernel: it decides at once."""

    index, count = 0, 1

    def agree(self, name, value, decide, **_):
        """What `decide` makes of [`value()`]."""
        return decide([value()])


class AllHosts:
    """All hosts of a pod kernel.

    client: of JAX's coordinator. index, count: of JAX's processes.
    """

    def __init__(self, client, index, count):
        self._client, self.index, self.count = client, index, count
        self._old = []  # what all hosts have read when they meet again

    def agree(self, name, value, decide, *, first=False, cancelled=lambda: False):
        """What *decide*, on host 0, makes of the list of all hosts' `value()`.

        Both are JSON. first: the hosts have `ARRIVE_SECONDS` to begin. cancelled: whether to give
        up; a host other than 0 does so only before it has sent its value. Raises `Cancelled`,
        `SessionError`, and what *value* raises here.
        """
        try:
            own = value()
            if cancelled():
                raise Cancelled
            if self.index == 0:
                decision = decide([own, *self._collect(name, first, cancelled)])
        except BaseException as error:  # also an interrupt: nobody shall wait for this host
            with contextlib.suppress(RuntimeError):  # they have lost each other
                self._send(name, "decision" if self.index == 0 else self.index, _problem(error))
            raise
        if self.index == 0:
            self._send(name, "decision", {"value": decision})
            return decision
        self._send(name, self.index, {"value": own})
        seconds = 2 * ARRIVE_SECONDS if first else None
        return _value(self._receive(name, "decision", seconds, lambda: False), 0)

    def _collect(self, name, first, cancelled):
        deadline = time.monotonic() + ARRIVE_SECONDS
        values = []
        for host in range(1, self.count):
            seconds = max(0.0, deadline - time.monotonic()) if first else None
            values.append(self._receive(name, host, seconds, cancelled))
        old, self._old = self._old, ["%s%s/" % (_FOLDER, name)]
        for key in old:
            self._client.key_value_delete(key)
        return [_value(value, host) for host, value in enumerate(values, 1)]

    def _send(self, name, part, content):
        text = base64.b64encode(zlib.compress(json.dumps(content).encode(), 1)).decode()
        self._client.key_value_set("%s%s/%s" % (_FOLDER, name, part), text)

    def _receive(self, name, part, seconds, cancelled):
        begun = time.monotonic()
        while True:
            if cancelled():
                raise Cancelled
            try:
                key = "%s%s/%s" % (_FOLDER, name, part)
                text = self._client.blocking_key_value_get(key, _WAIT_MS)
                return json.loads(zlib.decompress(base64.b64decode(text)))
            except RuntimeError as error:  # of JAX, which has no class of its own for this
                if "DEADLINE_EXCEEDED" not in str(error):
                    text = " ".join(str(error).split())[:200]
                    raise SessionError(
                        "The hosts lost the connection to each other: %s" % text
                    ) from None
            if seconds is not None and time.monotonic() > begun + seconds:
                host = 0 if part == "decision" else part
                raise SessionError(
                    "Host %d does not take part. A session is saved and restored in a cell that "
                    "runs on all hosts." % host
                )


def pod_hosts():
    """Those of this process's pod kernel. Raises `SessionError`."""
    try:
        from jax._src.distributed import global_state

        client, index, count = (
            global_state.client, global_state.process_id, global_state.num_processes,
        )  # fmt: skip
    except (ImportError, AttributeError):
        client = None
    if client is None:
        raise SessionError(
            "The session of a kernel on all hosts needs JAX on all of them: the hosts use it to "
            "save together."
        )
    return AllHosts(client, index, count)


def merged_reasons(reasons):
    """The reasons of all hosts, [{variable: sentence}], as one: each says of which hosts it is."""
    merged = {}
    for name in dict.fromkeys(name for of_host in reasons for name in of_host):
        texts = [of_host.get(name) for of_host in reasons]
        if len(set(texts)) == 1:
            merged[name] = texts[0]
        else:
            host = next(host for host, text in enumerate(texts) if text is not None)
            merged[name] = "on host %d: %s" % (host, texts[host])
    return merged


def _problem(error):
    if isinstance(error, (Cancelled, KeyboardInterrupt)):
        return {"cancelled": True}
    if isinstance(error, SessionError):
        return {"problem": str(error), "told": True}
    return {"problem": " ".join(("%s: %s" % (type(error).__name__, error)).split())[:500]}


def _value(content, host):
    if content.get("cancelled"):
        raise Cancelled
    if "problem" in content:
        told = content.get("told") and (host == 0 or content["problem"].startswith("Host "))
        text = content["problem"] if told else "Host %d: %s" % (host, content["problem"])
        raise SessionError(text)
    return content["value"]
