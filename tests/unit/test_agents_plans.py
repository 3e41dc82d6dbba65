"""What a coding agent may set in a plan, and whose TPU `run --once` uses again."""

from types import SimpleNamespace
from typing import Any, cast

from refusals import raises

from jupyter_tpu.agent_token import AGENT_VARIABLE
from jupyter_tpu.cloud import NodeOptions
from jupyter_tpu.commands import once_tpu as once
from jupyter_tpu.commands.once_tpu import OnceTPU
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.agents.access import require_open_plan
from jupyter_tpu.fleet.models import TPU, ConnectTPU, CreateTPU, PlanTPU

ONCE = OnceTPU(type="v5litepod-1", zone="us-west4-a")


class NewerOptions(NodeOptions, frozen=True, kw_only=True):
    reaches_further: bool = False


class NewerTPU(CreateTPU, kw_only=True):
    reaches_further: bool = False


class NewerPlan(PlanTPU, kw_only=True):
    reaches_further: bool = False


def test_an_option_that_nobody_has_named_is_closed_to_agents():
    usual = {"name": "a", "type": "v5litepod-1", "zone": "us-west4-a", "connect": ConnectTPU()}
    require_open_plan(PlanTPU(tpu=CreateTPU(**usual, options=NodeOptions(topology="2x2"))))
    require_open_plan(NewerPlan(tpu=NewerTPU(**usual, options=NewerOptions())))
    require_open_plan(ONCE.plan())
    for plan in (
        NewerPlan(tpu=CreateTPU(**usual), reaches_further=True),
        PlanTPU(tpu=NewerTPU(**usual, reaches_further=True)),
        PlanTPU(tpu=CreateTPU(**usual, options=NewerOptions(reaches_further=True))),
    ):
        with raises(Reason.PERMISSION, "Only a person may choose reaches_further"):
            require_open_plan(plan)


class KeptTPU:
    """A session in which one TPU is kept, with the label of `run --once`."""

    def __init__(self, **fields: Any) -> None:
        self.tpu = TPU(name="a", zone="us-west4-a", project="p", state=cast(Any, "READY"))
        self.tpu.labels = {"jupyter-tpu-once": ONCE.key}
        for name, value in fields.items():
            setattr(self.tpu, name, value)
        self.asked = False
        ask = SimpleNamespace(get=lambda _: None)
        self.fleet = SimpleNamespace(guards=ask, runs=ask)

    def tpus(self) -> Any:
        return SimpleNamespace(tpus=[self.tpu])

    def call(self, _: Any) -> Any:
        """It asks further, for what runs there: it would be used."""
        self.asked = True
        raise TPUError("It is gone.", Reason.NOT_FOUND)

    def is_considered(self) -> bool:
        assert once._warm(cast(Any, self), ONCE, lambda _: None) is None
        return self.asked


def test_a_persons_run_uses_no_tpu_that_agents_reach_and_an_agents_none_of_a_person(
    own_data, monkeypatch
):
    """Its project and tokens would be there. A label is no proof: all of a project can set it."""
    agents = {"planned_by": "agent", "agents_may_use": True}
    monkeypatch.delenv(AGENT_VARIABLE, raising=False)
    assert KeptTPU(planned_by="ana").is_considered()
    assert not KeptTPU(planned_by="").is_considered()
    assert not KeptTPU(**agents).is_considered()
    assert not KeptTPU(planned_by="ana", agents_may_use=True).is_considered()
    monkeypatch.setenv(AGENT_VARIABLE, "1")
    assert KeptTPU(**agents).is_considered()
    assert not KeptTPU(planned_by="ana").is_considered()
    assert not KeptTPU(planned_by="ana", agents_may_use=True).is_considered()
