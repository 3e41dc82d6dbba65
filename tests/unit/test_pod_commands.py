"""What a pod kernel itself understands in a cell, and how its hosts are called."""

from collections.abc import Iterator

import pytest

from jupyter_tpu.on_host.agent.pod.host_names import PodSlices, host_ranges, parse_hosts
from jupyter_tpu.on_host.agent.pod.pod_commands import command_of, parse_code
from jupyter_tpu.on_host.agent.pod.slices import for_host, use_slices

MEMBER = {"python": "python", "env": {"A": "1"}, "cwd": "~"}


@pytest.fixture
def slices() -> Iterator[None]:
    use_slices({"slices": [2, 4], "address": "10.0.0.2"})
    yield
    use_slices({"address": ""})


def test_a_command_with_a_host_runs_on_this_host_without_the_option():
    for line, code, hosts in (
        ("%tpu memory --host 2", "%tpu memory", {2}),
        ("%tpu memory --host=0,3 --free", "%tpu memory --free", {0, 3}),
        ("%pip list --host 1", "%pip list", {1}),
    ):
        assert parse_code(line, 4) == (code, frozenset(hosts), 0)
    for partial in "%tpu session save --host 2", "%%host 1\n%tpu session restore":
        with pytest.raises(ValueError, match="saved and restored by all hosts together"):
            parse_code(partial, 4)
    assert parse_code("%tpu session save", 4).hosts is None
    assert parse_code("print('%tpu memory --host 2')", 4).hosts is None
    assert parse_code("%tpu memory --host 2\nx = 1", 4).hosts is None


@pytest.mark.parametrize("code", ["%%local\nx = 1", "%tpu push x", "%tpu pull x", "%tpu top"])
def test_what_needs_a_kernel_of_this_computer_says_how_to_get_one(code):
    with pytest.raises(ValueError, match="%tpu auto on NAME --all-hosts"):
        parse_code(code, 4)


def test_the_words_of_hosts_are_a_command_and_a_cell_with_more_is_not():
    assert command_of("%hosts") == ""
    assert command_of("%hosts check\n") == "check"
    assert command_of("%hosts debug 2") == "debug 2"
    assert command_of("%hosts debug 1.0") == "debug 1.0"
    assert command_of("%hosts\nx = 1") is None


def test_hosts_of_slices_have_the_slice_in_their_name(slices):
    assert host_ranges([0, 1, 2, 4]) == "hosts 0, 1 of slice 0, hosts 0, 2 of slice 1"
    assert host_ranges([5]) == "host 3 of slice 1"
    assert parse_hosts("1.0-2, 0.1", 6) == {1, 2, 3, 4}
    assert parse_code("%%host 1.3\nx", 6).hosts == {5}
    assert parse_code("%%slice 1\nx", 6) == ("x", frozenset({2, 3, 4, 5}), 1)
    for text, problem in (
        ("2", "'2' does not name hosts"),
        ("0.2", "The hosts of slice 0 are 0 to 1"),
        ("2.0", "The slices are 0 to 1"),
        ("a.0", "does not name hosts"),
    ):
        with pytest.raises(ValueError, match=problem):
            parse_hosts(text, 6)
    with pytest.raises(ValueError, match="Slice 2 does not exist"):
        parse_code("%%slice 2\nx", 6)


def test_each_host_knows_its_slice_and_host_0_how_to_reach_it(slices):
    member = for_host(MEMBER, 3)
    assert member["alias"] == "slice-1-host-1"
    assert member["env"] == {
        "A": "1",
        "MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.2",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
    }


def test_one_slice_has_no_variables_of_slices():
    member = for_host(MEMBER, 3)
    assert (member["alias"], member["env"]) == ("host-3", {"A": "1"})
    with pytest.raises(ValueError, match="Slice 0 does not exist"):
        parse_code("%%slice 0\nx", 4)
    assert PodSlices.sizes == []
