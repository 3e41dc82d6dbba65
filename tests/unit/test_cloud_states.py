"""The states of TPUs in this project's words, and what a cloud's own word becomes."""

import pytest
from google.cloud import tpu_v2

from jupyter_tpu.cloud import NodeState, QueuedState
from jupyter_tpu.cloud.tpu import queued
from jupyter_tpu.cloud.tpu.nodes import parse_node, parse_state

OURS = {
    "REIMAGING": NodeState.RESTARTING,
    "HIDING": NodeState.STOPPING,
    "UNHIDING": NodeState.STARTING,
    "UNKNOWN": NodeState.FAILED,
    "STATE_UNSPECIFIED": NodeState.UNKNOWN,
}


@pytest.mark.parametrize("word", [state.name for state in tpu_v2.Node.State])
def test_each_state_of_cloud_tpu_has_one_of_ours(word):
    assert parse_state(word) is (OURS[word] if word in OURS else NodeState[word])


def test_each_state_of_a_queued_resource_has_one_of_ours_and_a_new_one_is_unknown():
    words = [state.name for state in tpu_v2.QueuedResourceState.State]
    ours = {queued.parse_state(word) for word in words}
    assert ours == set(QueuedState)
    assert queued.parse_state(words[0]) is queued.parse_state("NEW") is QueuedState.UNKNOWN


@pytest.mark.parametrize(
    ("word", "state", "kept"),
    [("READY", "READY", ""), ("REIMAGING", "RESTARTING", "REIMAGING"), (17, "UNKNOWN", "17")],
)
def test_googles_own_word_is_kept_where_it_is_another(word, state, kept):
    node = parse_node({"name": "projects/p/locations/z/nodes/my-tpu", "state": word})
    assert (node.state, node.cloud_state) == (state, kept)


def test_only_states_that_end_by_themselves_are_changing():
    still = {"READY", "STOPPED", "HIDDEN", "PREEMPTED", "TERMINATED", "FAILED", "UNKNOWN"}
    assert {state for state in NodeState if not state.changing} == still
    assert {state for state in NodeState if state.gone} == {"PREEMPTED", "TERMINATED"}
