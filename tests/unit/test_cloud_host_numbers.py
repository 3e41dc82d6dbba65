"""Google's numbers of a slice's hosts: host 0 is Google's worker 0, whatever its VM is called."""

from hypothesis import given
from hypothesis import strategies as some
from msgspec import structs

from jupyter_tpu.cloud import AttachedHost, Endpoint, Node, NodeName, NodeState
from jupyter_tpu.cloud.host_numbers import HostNumbers, in_order_of, is_numbered, numbered
from jupyter_tpu.fleet.lifecycle.attached import in_googles_order


def slice_of(count: int) -> Node:
    return Node(
        name=NodeName("p", "z", "s"),
        id="1",
        type="v6e-16",
        state=NodeState.READY,
        api="compute",
        endpoints=tuple(
            Endpoint(internal=f"10.0.0.{place}", instance=f"s-w-{place}", id=f"vm{place}")
            for place in range(count)
        ),
    )


@given(some.permutations(range(8)), some.sets(some.integers(0, 7)))
def test_hosts_are_in_googles_order_as_far_as_it_is_known(numbers, silent):
    node = slice_of(8)
    known = {f"vm{place}": n for place, n in enumerate(numbers) if place not in silent}
    result = numbered(node, known)
    assert {endpoint.id for endpoint in result.endpoints} == {
        endpoint.id for endpoint in node.endpoints
    }
    for id, number in known.items():
        assert (result.endpoints[number].id, result.endpoints[number].number) == (id, number)
    # The one that is left is known, too.
    assert is_numbered(result) == (len(silent) < 2)
    if is_numbered(result):
        assert [endpoint.number for endpoint in result.endpoints] == list(range(8))
    assert in_order_of(result, node, range(8)) == [
        int(endpoint.id.removeprefix("vm")) for endpoint in result.endpoints
    ]


@given(some.dictionaries(some.sampled_from(["vm0", "vm1", "vm2", "other"]), some.integers(-2, 5)))
def test_numbers_that_can_not_be_lose_no_host(known):
    result = numbered(slice_of(3), known)
    assert {endpoint.id for endpoint in result.endpoints} == {"vm0", "vm1", "vm2"}


def test_a_tpu_of_the_cloud_tpu_api_is_in_order_as_it_is():
    node = structs.replace(slice_of(4), api="tpu")
    assert is_numbered(node)
    assert numbered(node, {"vm0": 3}) is node
    assert is_numbered(slice_of(1))


def test_the_numbers_are_kept_for_other_processes(tmp_path):
    path = tmp_path / "numbers.json"
    mine, other = HostNumbers(path), HostNumbers(path)
    assert other.all() == {}
    mine.put({"vm0": 1})
    mine.put({"vm1": 0})
    assert other.all() == {"vm0": 1, "vm1": 0}
    path.write_text("[damaged")
    assert HostNumbers(path).all() == {}


def test_attached_machines_are_in_googles_order_if_all_say_it():
    def host(number: int | None) -> AttachedHost:
        return AttachedHost(alias="a", user="u", address="10.0.0.1", number=number)

    assert in_googles_order([host(2), host(0), host(1)]) == [1, 2, 0]
    assert in_googles_order([host(1), host(None)]) == [0, 1]
    assert in_googles_order([host(1), host(1)]) == [0, 1]
    assert in_googles_order([host(0)]) == [0]
