"""A connected TPU's life: what the loop does, and what is said, for what should be and what is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.fleet.life import CHANGING, Action, Seen, Wish, actions, connection
from jupyter_tpu.fleet.models import Connection
from jupyter_tpu.links import LinkState

CONNECTED = Wish(node_id="7", connected=True)
READY = Seen("READY", "7")


def test_links_of_a_connected_ready_tpu_are_held_up() -> None:
    assert actions(CONNECTED, READY, held=False, working=False) == (Action.HOLD,)
    assert actions(CONNECTED, READY, held=True, working=False) == ()


def test_a_tpu_deleted_elsewhere_is_forgotten_and_its_links_released() -> None:
    assert actions(CONNECTED, None, held=True, working=False) == (Action.RELEASE, Action.FORGET)


def test_another_tpu_of_the_same_name_is_not_taken_for_the_connected_one() -> None:
    assert actions(CONNECTED, Seen("READY", "8"), held=False, working=False) == (Action.FORGET,)


@pytest.mark.parametrize("state", ["STOPPED", "PREEMPTED", *sorted(CHANGING)])
def test_a_tpu_that_does_not_run_costs_no_tries_to_reach_it(state: str) -> None:
    assert actions(CONNECTED, Seen(state, "7"), held=True, working=False) == (Action.RELEASE,)


def test_what_a_dead_server_was_making_goes_on_when_the_tpu_runs() -> None:
    wish = Wish(node_id="7", connected=False, unfinished=True)
    assert actions(wish, Seen("CREATING", "7"), held=False, working=False) == ()
    assert actions(wish, READY, held=False, working=False) == (Action.RESUME,)


def test_the_kernelspecs_of_a_connected_tpu_are_checked_once_per_server() -> None:
    wish = Wish(node_id="7", connected=True, unregistered=True)
    assert Action.REGISTER in actions(wish, READY, held=True, working=False)


wishes = st.builds(
    Wish,
    node_id=st.sampled_from(["", "7", "8"]),
    connected=st.booleans(),
    unfinished=st.booleans(),
    unregistered=st.booleans(),
)
sights = st.none() | st.builds(
    Seen, st.sampled_from(["READY", "STOPPED", "CREATING", "PREEMPTED"]), st.just("7")
)


@given(wishes, sights, st.booleans())
def test_while_an_operation_works_the_loop_keeps_its_hands_off(
    wish: Wish, seen: Seen | None, held: bool
) -> None:
    assert actions(wish, seen, held=held, working=True) == ()


@given(wishes, sights, st.booleans())
def test_acting_settles_after_one_round(wish: Wish, seen: Seen | None, held: bool) -> None:
    for action in actions(wish, seen, held=held, working=False):
        if action is Action.HOLD:
            held = True
        elif action is Action.RELEASE:
            held = False
        elif action is Action.REGISTER:
            wish = Wish(node_id=wish.node_id, connected=wish.connected, unfinished=wish.unfinished)
        elif action is Action.FORGET:
            return  # there is no wish left to act on
        else:
            wish = Wish(node_id=wish.node_id, connected=wish.connected)
    assert actions(wish, seen, held=held, working=False) == ()


def said(**changes: object) -> Connection:
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
    assert said() is Connection.CONNECTED
    for state in (LinkState.SILENT, LinkState.WAITING, LinkState.CONNECTING, LinkState.DOWN):
        assert said(links=[LinkState.UP, state]) is Connection.RECONNECTING


def test_without_supervision_it_is_said_what_should_be() -> None:
    assert said(links=[]) is Connection.RECONNECTING
    assert said(links=[], supervised=False) is Connection.CONNECTED


def test_a_link_that_needs_the_user_says_so_for_the_tpu() -> None:
    assert said(links=[LinkState.UP, LinkState.NEEDS_YOU]) is Connection.NEEDS_YOU


def test_a_failed_first_connect_needs_the_user_and_an_older_environment_does_not() -> None:
    assert said(connected=False, failed=True, ready=False) is Connection.NEEDS_YOU
    assert said(failed=True, ready=True) is Connection.CONNECTED


def test_a_stopped_tpu_is_not_said_to_be_reconnecting() -> None:
    assert said(state="STOPPED", links=[]) is Connection.DISCONNECTED


def test_a_connect_under_way_is_said_before_anything_else() -> None:
    assert said(connected=False, connecting=True, failed=True) is Connection.CONNECTING
