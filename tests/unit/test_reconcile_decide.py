"""What the loop does about one TPU, for each desired and observed state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.cloud import Node, NodeName, NodeState
from jupyter_tpu.fleet.reconcile.controller import Action, Desired, decide


def node(state: str, id: str = "7") -> Node:
    return Node(
        name=NodeName("p", "us-west4-a", "my-tpu"), id=id, type="v4-8", state=NodeState(state)
    )


CONNECTED = Desired(node_id="7", connected=True)
READY = node("READY", "7")


def test_links_of_a_connected_ready_tpu_are_held_up():
    assert decide(CONNECTED, READY, acquired=False, busy=False) == (Action.ACQUIRE,)
    assert decide(CONNECTED, READY, acquired=True, busy=False) == ()


def test_a_tpu_deleted_elsewhere_is_forgotten_and_its_links_released():
    assert decide(CONNECTED, None, acquired=True, busy=False) == (Action.RELEASE, Action.FORGET)


def test_another_tpu_of_the_same_name_is_not_taken_for_the_connected_one():
    assert decide(CONNECTED, node("READY", "8"), acquired=False, busy=False) == (Action.FORGET,)


@pytest.mark.parametrize(
    "state", ["STOPPED", "PREEMPTED", *filter(lambda state: state.changing, NodeState)]
)
def test_a_tpu_that_does_not_run_costs_no_tries_to_reach_it(state):
    assert decide(CONNECTED, node(state), acquired=True, busy=False) == (Action.RELEASE,)


def test_what_a_dead_server_was_making_goes_on_when_the_tpu_runs():
    desired = Desired(node_id="7", connected=False, unfinished=True)
    assert decide(desired, node("CREATING", "7"), acquired=False, busy=False) == ()
    assert decide(desired, READY, acquired=False, busy=False) == (Action.RESUME,)


def test_the_kernelspecs_of_a_connected_tpu_are_checked_once_per_server():
    desired = Desired(node_id="7", connected=True, unregistered=True)
    assert Action.REGISTER in decide(desired, READY, acquired=True, busy=False)


desires = st.builds(
    Desired,
    node_id=st.sampled_from(["", "7", "8"]),
    connected=st.booleans(),
    unfinished=st.booleans(),
    unregistered=st.booleans(),
)
nodes = st.none() | st.builds(
    node, st.sampled_from(["READY", "STOPPED", "CREATING", "PREEMPTED"]), st.just("7")
)


@given(desires, nodes, st.booleans())
def test_while_an_operation_works_the_loop_keeps_its_hands_off(desired, node, acquired):
    assert decide(desired, node, acquired=acquired, busy=True) == ()


@given(desires, nodes, st.booleans())
def test_acting_settles_after_one_round(desired, node, acquired):
    for action in decide(desired, node, acquired=acquired, busy=False):
        if action is Action.ACQUIRE:
            acquired = True
        elif action is Action.RELEASE:
            acquired = False
        elif action is Action.REGISTER:
            desired = Desired(
                node_id=desired.node_id, connected=desired.connected, unfinished=desired.unfinished
            )
        elif action is Action.FORGET:
            return  # nothing is desired any more
        else:
            desired = Desired(node_id=desired.node_id, connected=desired.connected)
    assert decide(desired, node, acquired=acquired, busy=False) == ()
