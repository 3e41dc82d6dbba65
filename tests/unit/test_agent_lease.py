"""One master per kernel: the lease on a virtual clock."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.keeper.lease import Denied, Granted, KernelLease


def test_whoever_started_the_kernel_gets_its_lease_at_once():
    lease = KernelLease("ours", 0, ttl=20)
    assert lease.claim("ours", "me", 0) == Granted(1, 20)


def test_anyone_else_waits_for_the_one_who_started_it_to_come():
    lease = KernelLease("ours", 0, ttl=20)
    assert lease.claim("theirs", "them", 5) == Denied("", 15)
    assert lease.claim("theirs", "them", 20) == Granted(1, 20)


def test_the_same_secret_fences_the_old_connection_off_at_once():
    lease = KernelLease("ours", 0, ttl=20)
    lease.claim("ours", "me", 0)
    assert lease.claim("ours", "me again", 1) == Granted(2, 20)
    assert not lease.renew(1, 2), "the old connection is no longer master"
    assert lease.renew(2, 2)


def test_anyone_else_waits_for_the_end_of_the_lease():
    lease = KernelLease("ours", 0, ttl=20)
    lease.claim("ours", "me", 0)
    assert lease.claim("theirs", "them", 5) == Denied("me", 15)
    lease.renew(1, 10)
    assert lease.claim("theirs", "them", 25) == Denied("me", 5)
    assert lease.claim("theirs", "them", 30) == Granted(2, 20)
    assert lease.claim("ours", "me", 31) == Denied("them", 19)


def test_a_lease_that_was_let_go_of_is_free_at_once():
    lease = KernelLease("ours", 0, ttl=20)
    lease.claim("ours", "me", 0)
    lease.release(1)
    assert lease.claim("theirs", "them", 1) == Granted(2, 20)


def test_a_fenced_off_client_cannot_let_go_of_anothers_lease():
    lease = KernelLease("ours", 0, ttl=20)
    lease.claim("ours", "me", 0)
    lease.claim("theirs", "them", 1, steal=True)
    lease.release(1)
    assert lease.claim("third", "third", 2) == Denied("them", 19)


def test_a_lease_can_be_stolen_on_purpose():
    lease = KernelLease("ours", 0, ttl=20)
    lease.claim("ours", "me", 0)
    assert lease.claim("theirs", "them", 1, steal=True) == Granted(2, 20)
    assert not lease.renew(1, 2)
    assert lease.is_held_by("theirs")
    assert not lease.is_held_by("ours")


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.floats(0, 30), st.booleans(), st.booleans())
    )
)
def test_there_are_never_two_masters(steps):
    lease, now, fences = KernelLease("a", 0, ttl=20), 0.0, []
    for who, wait, steal, renew in steps:
        now += wait
        answer = lease.claim(who, who, now, steal=steal)
        if isinstance(answer, Granted):
            fences.append(answer.fence)
        if renew:
            assert [fence for fence in fences if lease.renew(fence, now)] == fences[-1:]
    assert fences == sorted(set(fences))
