"""Pages that a cell has started on this host: how to open them, where the cell's output names one.

`%tensorboard`, `gradio.launch()` and servers print http://127.0.0.1:PORT, or show a frame with it.
That is the host's own address, so the browser finds nothing there, or another program. Loaded by
`ipython_kernel` in the environment's own Python.
"""

import html
import json
import os
import re
import socket

_TYPES = ("stream", "display_data", "execute_result", "update_display_data")
_ADDRESS = re.compile(
    r"\bhttps?://(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\]):(\d{2,5})\b"
    r"|tensorboard-frame.{0,2000}?const port = (\d{2,5});",  # %tensorboard finds it by a script
    re.DOTALL,
)
#: Characters of an output that are read.
_READ_CHARACTERS = 1 << 16
#: Seconds for a server of this host to accept a connection.
_CONNECT_SECONDS = 0.2
#: More are not named.
_MOST_APPS = 20


def load(session):
    """Watches what the kernel's *session* sends; called once by the launcher."""
    send, named, waiting = session.send, set(), []  # type: ignore[var-annotated]

    def send_and_look(stream, msg_or_type, content=None, *args, **options):
        sent = send(stream, msg_or_type, content, *args, **options)
        whole = isinstance(msg_or_type, dict)
        kind = msg_or_type.get("msg_type") if whole else msg_or_type
        if kind in _TYPES and len(named) < _MOST_APPS:
            text = _text((msg_or_type.get("content") if whole else content) or {})
            # One that is printed before its server listens is looked for again at the next output.
            found = [int(port or other) for port, other in _ADDRESS.findall(text)]
            candidates = [port for port in dict.fromkeys([*waiting, *found]) if port not in named]
            if candidates:
                listening = [port for port in candidates if listens(port)]
                waiting[:] = [port for port in candidates if port not in listening][:_MOST_APPS]
                named.update(listening)
                parent = msg_or_type.get("parent_header") if whole else options.get("parent")
                for port in listening:
                    note = {"data": offer(port), "metadata": {}, "transient": {}}
                    send(stream, "display_data", note, parent=parent, ident=options.get("ident"))
        return sent

    session.send = send_and_look


def offer(port):
    """What to show for a page on *port*: a line, and in JupyterLab a button."""
    environ = os.environ
    name, zone = environ.get("JUPYTER_TPU_NAME", "NAME"), environ.get("JUPYTER_TPU_ZONE", "")
    number = int(environ.get("JUPYTER_TPU_POD") or environ.get("JUPYTER_TPU_WORKER") or 0)
    command = "jupyter tpu app open %s %d%s" % (
        name,
        port,
        " --worker %d" % number if number else "",
    )
    text = "Port %d is on the TPU. To open its page, run in a terminal on your computer: " % port
    data = {"text/plain": text + command}
    if zone:
        target = {"tpu": "%s/%s" % (zone, name), "host": number, "port": port}
        data["text/html"] = (
            '<span>%s<code>%s</code></span> <button hidden class="jp-tpu-OpenApp" '
            'data-commandlinker-command="tpu:show-app" data-commandlinker-args="%s">Open Port %d'
            "</button>"
        ) % (html.escape(text), html.escape(command), html.escape(json.dumps(target)), port)
    return data


def listens(port):
    """Whether a program of this host listens there."""
    for address in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((address, port), timeout=_CONNECT_SECONDS).close()
            return True
        except OSError:
            continue
    return False


def _text(content):
    if "text" in content:
        return str(content["text"])[:_READ_CHARACTERS]
    data = content.get("data") or {}
    return "\n".join(
        str(data.get(kind) or "")[:_READ_CHARACTERS] for kind in ("text/html", "text/plain")
    )
