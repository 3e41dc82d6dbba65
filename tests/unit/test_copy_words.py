"""How copies and shared folders are said, for one thing and for several."""

import pytest

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.files.copy.copying import FilesExist
from jupyter_tpu.files.sync import HostOutcome, SyncOutcome
from jupyter_tpu.fleet.files import copy_requests, sync
from jupyter_tpu.fleet.models import CopyFiles, HostCopy, Problem
from jupyter_tpu.wording import other_hosts

LOST = TPUError("The connection was lost.", Reason.UNREACHABLE)


def failed(host: int) -> HostCopy:
    return HostCopy(host=host, state="failed", problem=Problem.of(LOST))


def done(host: int) -> HostCopy:
    return HostCopy(host=host, files=3, bytes=9, targets=["/home/me/x"])


def test_a_copy_says_how_many_hosts_have_it_and_no_speed_that_is_none():
    request = CopyFiles(sources=["x"])
    assert copy_requests.summary("pod", request, [done(0), failed(1)], 70.2) == (
        "Copied 3 files, 9 bytes to 1 host of pod in 70.2 s."
    )
    fast = HostCopy(host=0, files=1, bytes=20_000_000, targets=["/x"])
    assert copy_requests.summary("pod", request, [fast], 2.0) == (
        "Copied 1 file, 20 MB to pod:/x in 2.0 s (10 MB/s)."
    )


def test_hosts_that_have_no_copy_are_named_in_sentences():
    failure = copy_requests.failure_of("pod", [done(0), failed(1), failed(2)])
    assert failure.message == (
        "Not copied to 2 of 3 hosts of pod: host 1: The connection was lost. "
        "host 2: The connection was lost."
    )


@pytest.mark.parametrize(("hosts", "rest"), [(2, "The other host has it."), (1, "")])
def test_a_sync_says_how_the_other_hosts_are(hosts, rest):
    outcomes = [HostOutcome(host=number) for number in range(hosts)]
    outcomes[-1].problem = LOST
    failure = sync.failure_of(SyncOutcome(hosts=outcomes))
    assert failure.message.endswith(rest or "The connection was lost.")


def test_one_file_that_exists_is_it_and_several_are_them():
    assert FilesExist("x exists.", ["x"], 1).hint.startswith("Overwrite it,")
    assert FilesExist("2 files exist.", ["x", "y"], 2).hint.startswith("Overwrite them,")


def test_other_hosts_are_counted():
    said = [other_hosts(number, "is done", "are done") for number in range(3)]
    assert said == ["", " The other host is done.", " The other 2 hosts are done."]
