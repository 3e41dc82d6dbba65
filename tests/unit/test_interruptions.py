"""What is announced to hosts, from what their metadata servers say in any order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.cloud import Node, NodeName, NodeState
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.kernels.kernels import Interruptions
from jupyter_tpu.links import HostName
from jupyter_tpu.on_host.agent.daemon.metadata import Announced

NAME = NodeName("p", "us-west4-a", "my-tpu")

VALUES = st.one_of(
    st.tuples(st.just("preempted"), st.sampled_from(["FALSE", "TRUE", "true\n", ""])),
    st.tuples(
        st.just("maintenance-event"),
        st.sampled_from(["NONE", "TERMINATE_ON_HOST_MAINTENANCE", "MIGRATE_ON_HOST_MAINTENANCE"]),
    ),
)


@given(st.lists(VALUES))
def test_it_is_told_once_until_something_else_is_announced(values):
    announced, last = Announced(), {"preempted": "FALSE", "maintenance-event": "NONE"}
    for number, (key, value) in enumerate(values):
        before = announced.interruption
        changed = announced.note(key, value, str(number))
        last[key] = value.strip().upper()
        kind = (
            "preemption"
            if last["preempted"] == "TRUE"
            else "maintenance"
            if last["maintenance-event"] != "NONE"
            else None
        )
        after = announced.interruption
        assert (after and after["kind"]) == kind
        assert changed == ((before and before["kind"]) != kind)
        if not changed:
            assert after == before, "it is known since the first time"


def node(id: str) -> Node:
    return Node(name=NAME, id=id, type="v5litepod-16", state=NodeState.READY, health="HEALTHY")


def report(kind: str, noticed: str) -> dict[str, Any]:
    return {"kind": kind, "noticed": noticed, "checkpoints": []}


def test_hosts_that_say_the_same_are_one_announcement_and_another_tpu_has_none():
    observed, changed = ObservedState(), []
    observed.nodes = {NAME: node("7")}
    interruptions = Interruptions(observed, changed.append)
    interruptions.update(HostName(NAME, 0), None)
    assert changed == []
    interruptions.update(HostName(NAME, 2), report("maintenance", "10:02"))
    interruptions.update(HostName(NAME, 0), report("maintenance", "10:01"))
    interruptions.update(HostName(NAME, 0), report("maintenance", "10:01"))
    assert len(changed) == 2
    known = interruptions.last_known(node("7"))
    assert (known.kind, known.hosts, known.noticed) == ("maintenance", [0, 2], "10:01")
    saved = {"what": "save()", "notebook": "n.ipynb", "state": "running"}
    interruptions.update(
        HostName(NAME, 3), {**report("preemption", "10:03"), "checkpoints": [saved]}
    )
    known = interruptions.last_known(node("7"))
    assert (known.kind, known.hosts) == ("preemption", [3])
    assert [(run.host, run.what, run.state) for run in known.checkpoints] == [
        (3, "save()", "running")
    ]
    assert interruptions.last_known(node("8")) is None, "it was created later, with the same name"
    for host in (0, 2, 3):
        interruptions.update(HostName(NAME, host), None)
    assert interruptions.last_known(node("7")) is None
