"""How far connecting a TPU is, as it is shown."""

from collections.abc import Sequence

import pytest

from jupyter_tpu.cloud.attached import attached_name
from jupyter_tpu.cloud.models import Endpoint, Node, NodeName, NodeState, QueuedTPUs
from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet.core.operation_records import OperationRecord
from jupyter_tpu.fleet.core.view import TPUFacts, advice, connection, view_tpu
from jupyter_tpu.fleet.lifecycle.queued import meaning, view_queued
from jupyter_tpu.fleet.models import TPU, ConnectionState, Operation, Problem
from jupyter_tpu.fleet.models.money import cost_of
from jupyter_tpu.fleet.money.owners import UNKNOWN
from jupyter_tpu.links import LinkState
from jupyter_tpu.terminal.tables import type_text


def shown(**changes: object) -> ConnectionState:
    facts: dict = {
        "state": NodeState.READY,
        "connected": True,
        "connecting": False,
        "failed": False,
        "ready": True,
        "links": [LinkState.UP, LinkState.UP],
        "supervised": True,
    }
    return connection(**{**facts, **changes})


def test_a_tpu_is_connected_only_when_every_link_is_up():
    assert shown() is ConnectionState.CONNECTED
    for state in (LinkState.SILENT, LinkState.WAITING, LinkState.CONNECTING, LinkState.DOWN):
        assert shown(links=[LinkState.UP, state]) is ConnectionState.RECONNECTING


def test_without_supervision_the_desired_state_is_shown():
    assert shown(links=[]) is ConnectionState.RECONNECTING
    assert shown(links=[], supervised=False) is ConnectionState.CONNECTED


def test_a_link_that_needs_the_user_says_so_for_the_tpu():
    assert shown(links=[LinkState.UP, LinkState.NEEDS_ATTENTION]) is ConnectionState.NEEDS_ATTENTION


def test_a_failed_first_connect_needs_the_user_and_an_older_environment_does_not():
    assert shown(connected=False, failed=True, ready=False) is ConnectionState.NEEDS_ATTENTION
    assert shown(failed=True, ready=True) is ConnectionState.CONNECTED


def test_a_stopped_tpu_is_not_shown_as_reconnecting():
    assert shown(state=NodeState.STOPPED, links=[]) is ConnectionState.DISCONNECTED


def test_a_connect_under_way_is_shown_before_anything_else():
    assert shown(connected=False, connecting=True, failed=True) is ConnectionState.CONNECTING


def view(operations: Sequence[OperationRecord] = (), **fields: object) -> TPU:
    facts: dict = {"emulated": False, "undeleted": None, "state": NodeState.READY, **fields}
    described = {key: facts.pop(key) for key in Node.__struct_fields__ if key in facts}
    usual = {
        "name": NodeName("p", "us-west4-a", "my-tpu"),
        "type": "v5litepod-8",
        "created": "2027-01-15T08:00:00Z",
    }
    node = Node(id="7", **{**usual, **described})
    price = cost_of("v5litepod-8", "us-west4-a", "on-demand", emulated=facts["emulated"])
    return view_tpu(
        TPUFacts(
            name=node.name, node=node, cost=price, seconds=3600.0, operations=operations, **facts
        )
    )


def refused(ended: str) -> Operation:
    problem = Problem(message="You may not.", reason=Reason.PERMISSION, hint="Ask.")
    return Operation(id="1", kind="delete", state="failed", ended=ended, problem=problem)


def test_a_tpu_that_could_not_be_deleted_says_so_and_what_it_costs():
    later = refused("2027-01-16T08:00:00Z")
    problem = view(undeleted=later).problem
    assert problem.message == (
        "my-tpu was not deleted. Google bills it about $9.60 an hour. You may not."
    )
    assert (problem.reason, problem.hint) == (Reason.PERMISSION, "Ask.")
    for free in ({"emulated": True}, {"state": NodeState.STOPPED}):
        problem = view(undeleted=later, **free).problem
        assert problem.message == "my-tpu was not deleted. You may not."


def test_maintenance_and_repair_are_shown_while_they_go_on():
    maintenance = view(health="UNHEALTHY_MAINTENANCE").problem
    assert maintenance.message.startswith("Maintenance of my-tpu is in progress.")
    repair = view(state=NodeState.REPAIRING, health_description="A chip failed.").problem
    assert (repair.message, repair.hint) == ("A chip failed.", "Wait until it is repaired.")
    assert view(state=NodeState.STOPPED, health="UNHEALTHY_MAINTENANCE").problem is None
    assert view(health="HEALTHY").problem is None


def test_what_was_not_deleted_before_is_another_tpu():
    assert view(undeleted=refused("2027-01-14T08:00:00Z")).problem is None


def test_a_tpu_that_runs_for_a_limited_time_says_when_it_ends():
    tpu = view(tier="flex-start", run_for=5400.0)
    assert (tpu.run_for, tpu.run_ends) == (5400, "2027-01-15T09:30:00Z")
    assert (view().run_for, view().run_ends) == (None, "")


def test_attached_machines_without_a_tpu_say_so():
    endpoint = Endpoint(internal="10.0.0.2", external="box.lab", ssh="ana@box.lab")
    for hosts, said in ((1, "1 SSH host without a TPU"), (2, "2 SSH hosts without a TPU")):
        machine: dict = {"type": "no TPU", "chips": 0, "endpoints": (endpoint,) * hosts}
        tpu = view(name=attached_name("box"), **machine)
        assert (tpu.meaning, type_text(tpu)) == (said, said)
    tpu = view(name=attached_name("box"), type="v5e", chips=8, endpoints=(endpoint,) * 2)
    assert type_text(tpu) == "v5e = 8 chips · 2 hosts"
    unseen = view(name=attached_name("box"), type="v5e", chips=None, endpoints=())
    assert type_text(unseen) == "v5e"


def test_a_tpu_has_the_price_of_its_hours():
    cost = view().cost
    assert (cost.usd_per_hour, cost.usd, cost.region) == (9.6, 9.6, "us-west4")


def test_each_state_says_what_it_costs_and_what_can_be_done_now():
    assert view().advice == "It is billed, used or not. Connect it, or stop or delete it."
    assert view(emulated=True).advice == "Connect it, or stop or delete it."
    assert (
        view(state=NodeState.STOPPED).advice == "Only its disk is billed. Start it, or delete it."
    )
    for state in NodeState:
        assert view(state=state).advice


def test_a_queued_resource_says_that_it_is_emulated_and_then_nothing_of_money():
    google, emulated = (
        view_queued(
            QueuedTPUs(name=NodeName("p", "us-west4-a", "big"), state="ACTIVE"),
            UNKNOWN,
            emulated=emulated,
        )
        for emulated in (False, True)
    )
    assert google.meaning == "Its TPUs exist. Connect them. They are billed, used or not."
    assert (emulated.emulated, emulated.meaning) == (True, "Its TPUs exist. Connect them.")
    assert "billed" in meaning("WAITING_FOR_RESOURCES", emulated=False)
    assert "billed" not in meaning("WAITING_FOR_RESOURCES", emulated=True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "Connect it, or stop or delete it."),
        ({"api": "compute"}, "Connect it, or stop or delete it."),
        ({"api": "compute", "tier": "spot"}, "Connect it, or delete it."),
        ({"api": "compute", "endpoints": (Endpoint(internal="a"),) * 2}, "or delete it."),
        (
            {"state": NodeState.CREATING, "waiting": True},
            "Google ends that after 2 hours at most.",
        ),
        (
            {"state": NodeState.CREATING, "waiting": True, "endpoints": ()},
            "It waits until you cancel or delete it.",
        ),
    ],
)
def test_what_can_be_done_follows_from_what_google_does_with_it(more, said):
    node = Node(
        **{
            "name": NodeName("p", "z", "n"),
            "id": "1",
            "type": "v6e-8",
            "state": NodeState.READY,
            "endpoints": (Endpoint(internal="a"),),
            **more,
        }
    )
    assert said in advice(node, free=True, connected=False)
