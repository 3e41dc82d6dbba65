"""What is said before a TPU is stopped, deleted or disconnected."""

from msgspec import structs

from jupyter_tpu.fleet.lifecycle.consequences import consequences
from jupyter_tpu.fleet.models import TPU, Job, Kernel

ONE = TPU(name="my-tpu", zone="us-west4-a", project="p", queued="q")
WHERE = {"tpu": "my-tpu", "zone": "us-west4-a"}
KERNEL = Kernel(id="k1", state="idle", environment="default", notebook="a.ipynb", **WHERE)
JOB = Job(id="j1", name="train", command=["train"], state="running", attempts=[], **WHERE)


def test_what_runs_there_and_what_else_goes_is_said_in_sentences():
    other = structs.replace(KERNEL, id="k2", notebook="")
    assert consequences("delete", ONE, [KERNEL, other], [JOB]).lost == [
        "This shuts down 2 kernels on my-tpu: a.ipynb (idle, default), k2 (idle, default).",
        "Their variables will be lost.",
        "This ends 1 job on my-tpu: train (j1, running).",
        "This permanently deletes my-tpu, its disk and everything on it.",
        "Its queued resource q is deleted, too, if it is yours.",
    ]
    assert consequences("stop", ONE, [], []).lost == [
        "The disk of my-tpu with all environments and files is kept."
    ]
    kept = consequences("disconnect", ONE, [], [JOB]).lost
    assert kept[0] == "This does not end 1 job on my-tpu: train (j1, running)."


def test_another_persons_queued_resource_stays():
    theirs = structs.replace(ONE, not_yours=True)
    assert not any("queued" in said for said in consequences("delete", theirs, [], []).lost)
