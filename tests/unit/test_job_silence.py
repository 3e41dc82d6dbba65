"""When a job counts as silent: against the clock that the test moves."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.keeper.job_silence import (
    FEWEST_GAPS,
    LEAST_SECONDS,
    USUAL_GAPS,
    JobSilence,
)


def printing(gaps: list[float]) -> tuple[JobSilence, float]:
    """A job that has printed with these gaps, and the time of its last output."""
    silence, now = JobSilence(), 1000.0
    silence.note_output(now)
    for gap in gaps:
        now += gap
        silence.note_output(now)
    return silence, now


def test_ten_usual_gaps_without_output_are_silence_and_one_line_ends_it():
    silence, now = printing([30.0] * 20)
    assert silence.usual_gap() == 30.0
    assert silence.seconds(now + 299) == 0
    assert silence.seconds(now + 301) == 301
    silence.note_output(now + 302)
    assert silence.seconds(now + 303) == 0


def test_a_job_that_prints_fast_is_given_a_minute():
    silence, now = printing([0.01] * 5000)
    assert silence.seconds(now + LEAST_SECONDS) == 0
    assert silence.seconds(now + LEAST_SECONDS + 1) > 0


def test_a_checkpoint_now_and_then_is_not_unusual_for_long():
    silence, now = printing(([2.0] * 8 + [40.0] * 2) * 5)
    assert silence.seconds(now + 399) == 0


def test_a_job_that_prints_little_is_never_silent():
    silence, now = printing([100.0] * (FEWEST_GAPS - 1))
    assert silence.usual_gap() is None
    assert silence.seconds(now + 1e9) == 0
    assert JobSilence().seconds(1e9) == 0


@given(st.lists(st.floats(0.0, 1e4), max_size=200), st.floats(0.0, 1e6))
def test_whatever_it_prints_silence_is_longer_than_nearly_all_gaps(gaps, after):
    silence, now = printing(gaps)
    seconds = silence.seconds(now + after)
    assert seconds in (0.0, now + after - now)
    if seconds:
        assert seconds > LEAST_SECONDS
        assert seconds > USUAL_GAPS * (silence.usual_gap() or 0.0)
