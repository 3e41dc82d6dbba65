"""Pauses between attempts."""

import itertools

from jupyter_tpu.backoff import POLLING, Backoff


def test_pauses_grow_up_to_the_longest():
    backoff = Backoff(0.5, 3.0)
    assert list(itertools.islice(backoff, 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [backoff.after(failures) for failures in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.after(10**6) == 3.0
    assert [backoff.next(pause) for pause in (0.0, 0.5, 2.0, 60.0)] == [0.5, 1.0, 3.0, 3.0]


def test_jitter_is_a_part_of_the_pause():
    backoff = Backoff(2.0, 60.0, jitter=(0.75, 1.25))
    assert [backoff.after(2, chance) for chance in (0.0, 0.5, 1.0)] == [3.0, 4.0, 5.0]


def test_polling_is_quick_first_and_then_slower_up_to_a_bound():
    seconds = list(itertools.islice(POLLING, 30))
    assert seconds[0] <= 0.25
    assert seconds == sorted(seconds)
    assert max(seconds) == 5.0
