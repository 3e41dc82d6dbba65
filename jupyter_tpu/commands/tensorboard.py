"""``jupyter tpu tensorboard``: TensorBoard, with xprof, for a folder of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..terminal.field_options import options_of
from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option
from ..terminal.session import open_session
from ..terminal.waiting import finish, progress_stream
from .app import browser_option, opened_app, show

if TYPE_CHECKING:
    pass


@command("tensorboard", epilog=examples("jupyter tpu tensorboard my-tpu --logdir ~/runs"))
@tpu_argument()
@options_of("OpenTensorBoard", "logdir", "allow_missing", "host")
@browser_option
@json_option
def tensorboard(name: str, fields: dict[str, Any], no_browser: bool, as_json: bool) -> None:
    """Open TensorBoard (with xprof) for a folder of a host.

    It is installed on the host if it is missing.
    """
    from ..fleet.models import OpenTensorBoard

    request = OpenTensorBoard(**fields)
    with open_session() as session:
        operation = session.call(session.fleet.tensorboard.open(name, request))
        ended = finish(session, operation, progress_stream(as_json))
        show(session, opened_app(session, ended), no_browser, as_json)
