"""How far connecting a TPU is, as it is shown."""

from __future__ import annotations

from jupyter_tpu.fleet.inventory.view import connection
from jupyter_tpu.fleet.models import Connection
from jupyter_tpu.links import LinkState


def shown(**changes: object) -> Connection:
    facts: dict = {
        "state": "READY",
        "connected": True,
        "connecting": False,
        "failed": False,
        "ready": True,
        "links": [LinkState.UP, LinkState.UP],
        "supervised": True,
    }
    return connection(**{**facts, **changes})


def test_a_tpu_is_connected_only_when_every_link_is_up() -> None:
    assert shown() is Connection.CONNECTED
    for state in (LinkState.SILENT, LinkState.WAITING, LinkState.CONNECTING, LinkState.DOWN):
        assert shown(links=[LinkState.UP, state]) is Connection.RECONNECTING


def test_without_supervision_it_is_said_what_should_be() -> None:
    assert shown(links=[]) is Connection.RECONNECTING
    assert shown(links=[], supervised=False) is Connection.CONNECTED


def test_a_link_that_needs_the_user_says_so_for_the_tpu() -> None:
    assert shown(links=[LinkState.UP, LinkState.NEEDS_ATTENTION]) is Connection.NEEDS_ATTENTION


def test_a_failed_first_connect_needs_the_user_and_an_older_environment_does_not() -> None:
    assert shown(connected=False, failed=True, ready=False) is Connection.NEEDS_ATTENTION
    assert shown(failed=True, ready=True) is Connection.CONNECTED


def test_a_stopped_tpu_is_not_said_to_be_reconnecting() -> None:
    assert shown(state="STOPPED", links=[]) is Connection.DISCONNECTED


def test_a_connect_under_way_is_said_before_anything_else() -> None:
    assert shown(connected=False, connecting=True, failed=True) is Connection.CONNECTING
