"""What host 0 of a TPU knows of the others: that they are idle only if each has just said so."""

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.guard.others import (
    FRESH_TEXT_SECONDS,
    ActivityPublisher,
    ActivityReader,
)

NO_REPORT = "host 1 (no report)"


def test_a_first_text_may_be_old_and_a_later_one_counts_for_a_while():
    listener, second, third = ActivityReader(3), ActivityPublisher(), ActivityPublisher()
    silent = [NO_REPORT, "host 2 (no report)"]
    assert listener.busy(0.0) == silent
    listener.receive(["", second.text([]), third.text(["a job"])], 0.0)
    assert listener.busy(0.0) == silent
    listener.receive(["", second.text([]), third.text(["a job"])], 30.0)
    assert listener.busy(30.0) == ["a job on host 2"]
    listener.receive(["", second.text([]), third.text([])], 60.0)
    assert listener.busy(60.0) == []
    listener.receive(["", second.text(None)], 90.0)
    assert listener.busy(90.0) == silent, "one can't say it, the other says nothing any more"


def test_what_was_reported_while_nobody_listened_is_not_treated_as_new():
    """Host 0 was busy for an hour; the guard of host 1 has ended in that time."""
    listener, speaker = ActivityReader(2), ActivityPublisher()
    listener.receive(["", speaker.text([])], 0.0)
    last = speaker.text([])
    for uptime in (3600.0, 3630.0):
        listener.receive(["", last], uptime)
        assert listener.busy(uptime) == [NO_REPORT]
    listener.receive(["", speaker.text([])], 3660.0)
    assert listener.busy(3660.0) == []


def test_what_is_no_report_counts_as_none():
    listener = ActivityReader(2)
    for text in ("{", "[]", '{"busy": 7}', "", '{"look": 1}'):
        listener.receive(["", "before"], 0.0)
        listener.receive(["", text], 1.0)
        assert listener.busy(1.0) == [NO_REPORT]


LOOKS = st.tuples(st.floats(1, 200), st.booleans(), st.sampled_from(((), ("a kernel",), None)))


@settings(max_examples=50, deadline=None)
@given(st.lists(LOOKS))
def test_a_host_is_never_treated_as_idle_by_an_old_report(looks):
    """Whatever is said, heard and missed: idle means that it is its last word, and fresh."""
    listener, speaker = ActivityReader(2), ActivityPublisher()
    now, said, text = 0.0, float("-inf"), ""
    busy: tuple[str, ...] | None = None
    for pause, hears, state in looks:
        now += pause
        if not hears:
            said, busy, text = now, state, speaker.text(state)
            continue
        listener.receive(["", text], now)
        if listener.busy(now) == []:
            assert busy == ()
            assert now - said <= FRESH_TEXT_SECONDS
