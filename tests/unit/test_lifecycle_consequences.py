"""What is said before a TPU is stopped, deleted or disconnected."""

from typing import Any

from msgspec import structs

from jupyter_tpu.fleet.lifecycle.consequences import consequences
from jupyter_tpu.fleet.models import (
    TPU,
    Consequences,
    ConsequencesQuery,
    Environment,
    Job,
    Kernel,
)
from jupyter_tpu.fleet.models.consequences import Act

ONE = TPU(name="my-tpu", zone="us-west4-a", project="p", queued="q")
WHERE = {"tpu": "my-tpu", "zone": "us-west4-a"}
KERNEL = Kernel(id="k1", state="idle", environment="default", notebook="a.ipynb", **WHERE)
JOB = Job(id="j1", name="train", command=["train"], state="running", attempts=[], **WHERE)


def after(act: Act, tpu: TPU, *running: list[Kernel] | list[Job], **how: Any) -> Consequences:
    return consequences(ConsequencesQuery(act=act, **how), tpu, *running)


def test_what_runs_there_and_what_else_goes_is_said_in_sentences():
    other = structs.replace(KERNEL, id="k2", notebook="")
    deletion = after("delete", ONE, [KERNEL, other], [JOB])
    rest = [
        "This permanently deletes my-tpu in us-west4-a, its disk, and all environments and files "
        "on it.",
        "Its queued resource q is deleted, too, if it is yours.",
    ]
    assert (deletion.kernels, deletion.jobs, deletion.lost) == ([KERNEL, other], [JOB], rest)
    assert deletion.sentences() == [
        "This shuts down 2 kernels on my-tpu. Their variables will be lost.",
        "Kernels: a.ipynb (idle, default), k2 (idle, default).",
        "This ends 1 job on my-tpu.",
        "Jobs: train (j1, running).",
        *rest,
    ]
    assert after("stop", ONE, [], []).sentences() == [
        "The disk of my-tpu with all environments and files is kept."
    ]
    assert after("disconnect", ONE, [], [JOB]).jobs_text == "This does not end 1 job on my-tpu."


def test_an_environment_takes_its_own_kernels_only_and_what_was_there_before_stays():
    theirs = structs.replace(KERNEL, id="k2", environment="mine")
    mine = Environment(name="mine", state="ready", python_path="/usr/bin/python3", **WHERE)
    tpu = structs.replace(ONE, environments=[mine])
    removal = after("remove-environment", tpu, [KERNEL, theirs], [JOB], environment="mine")
    assert (removal.kernels, removal.jobs_text) == ([theirs], "")
    assert "The environment on my-tpu is kept." in removal.lost[0]
    own = after("remove-environment", tpu, [], [], environment="default")
    assert own.lost[0].startswith("This removes its packages from my-tpu")


def test_what_is_only_remembered_is_said_to_be():
    query = ConsequencesQuery(act="stop")
    remembered = consequences(query, ONE, [KERNEL], [], answered=False)
    assert remembered.lost[0].startswith("Its hosts did not answer: this is what was last known")


def test_another_persons_queued_resource_stays():
    theirs = structs.replace(ONE, not_yours=True)
    assert not any("queued" in said for said in after("delete", theirs, [], []).lost)
