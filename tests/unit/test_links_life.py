"""The state machine by itself: no clock, no socket; a virtual driver does what the actions say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.links.life import (
    DELAYS,
    LinkAction,
    LinkCommand,
    LinkEvent,
    LinkLife,
    LinkState,
)


def doing(actions: list[LinkAction]) -> list[LinkCommand]:
    return [action.do for action in actions]


def life_that(*events: LinkEvent, jitter: float = 0.0) -> LinkLife:
    life = LinkLife(lambda: jitter)
    for event in events:
        life.on(event)
    return life


class Driver:
    """What `Link` does, without a network: keeps count of what is under way."""

    def __init__(self, jitter: float) -> None:
        self.life = LinkLife(lambda: jitter)
        self.wanted = False
        self.attempt = False
        self.connection = False
        self.timer = False
        self.probe = False
        self.reported = LinkState.DOWN

    def on(self, event: LinkEvent) -> None:
        """An event that can happen now; what it ends is over before the machine hears of it."""
        if event is LinkEvent.WANTED:
            self.wanted = True
        elif event is LinkEvent.UNWANTED:
            self.wanted = False
        elif event in (LinkEvent.CONNECTED, LinkEvent.FAILED, LinkEvent.REFUSED):
            self.attempt = False
            self.connection = event is LinkEvent.CONNECTED
        elif event is LinkEvent.LOST:
            self.connection = False
        elif event is LinkEvent.TIMER:
            self.timer = False
        if event in (LinkEvent.HEARD, LinkEvent.LOST):
            self.probe = False
        for action in self.life.on(event):
            self.do(action)

    def do(self, action: LinkAction) -> None:
        if action.do is LinkCommand.CONNECT:
            assert not self.attempt, "a second attempt beside the first"
            assert not self.connection, "an attempt beside a connection"
            self.attempt = True
        elif action.do is LinkCommand.DISCONNECT:
            self.attempt = self.connection = self.probe = False
        elif action.do is LinkCommand.SCHEDULE:
            assert 0 < action.delay <= DELAYS.longest
            self.timer = True
        elif action.do is LinkCommand.UNSCHEDULE:
            self.timer = False
        elif action.do is LinkCommand.PROBE:
            assert self.connection
            self.probe = True
        elif action.do is LinkCommand.REPORT:
            self.reported = self.life.state

    def possible(self) -> list[LinkEvent]:
        events = [LinkEvent.WANTED, LinkEvent.UNWANTED, LinkEvent.WOKE, LinkEvent.MOVED]
        if self.attempt:
            events += [LinkEvent.CONNECTED, LinkEvent.FAILED, LinkEvent.REFUSED]
        if self.connection:
            events += [LinkEvent.LOST, LinkEvent.SILENCE, LinkEvent.HEARD]
        if self.timer:
            events.append(LinkEvent.TIMER)
        return events


@given(st.data(), st.floats(0, 1, exclude_max=True))
def test_a_wanted_link_is_up_or_under_way_or_says_what_it_needs(data, jitter):
    driver = Driver(jitter)
    for _ in range(data.draw(st.integers(0, 60))):
        driver.on(data.draw(st.sampled_from(driver.possible())))
        state = driver.life.state
        assert driver.reported is state, "a change of state was not reported"
        if state is LinkState.DOWN:
            assert not driver.wanted
            assert (driver.attempt, driver.connection, driver.timer) == (False, False, False)
        else:
            assert driver.wanted
        assert driver.attempt == (state is LinkState.CONNECTING)
        assert driver.connection == (state in (LinkState.UP, LinkState.SILENT))
        if state is LinkState.WAITING:
            assert driver.timer


@given(st.data())
def test_from_anywhere_a_wanted_link_comes_up_once_the_host_answers(data):
    driver = Driver(0.5)
    for _ in range(data.draw(st.integers(0, 40))):
        driver.on(data.draw(st.sampled_from(driver.possible())))
    driver.on(LinkEvent.WANTED)  # somebody wants it, again or still
    for _ in range(4):
        if driver.attempt:
            driver.on(LinkEvent.CONNECTED)
        elif driver.life.state is LinkState.SILENT:
            driver.on(LinkEvent.HEARD)
        elif driver.life.state is LinkState.WAITING:
            driver.on(LinkEvent.TIMER)
    assert driver.life.state is LinkState.UP
    assert driver.connection


@given(st.lists(st.sampled_from(list(LinkEvent)), max_size=60))
def test_events_that_can_not_happen_change_nothing_for_the_worse(events):
    life = life_that(LinkEvent.WANTED)
    for event in events:
        before = life.state
        actions = life.on(event)
        assert (LinkCommand.REPORT in doing(actions)) == (life.state is not before)


def test_a_first_loss_is_answered_by_connecting_at_once():
    life = life_that(LinkEvent.WANTED, LinkEvent.CONNECTED, LinkEvent.TIMER)
    assert LinkCommand.CONNECT in doing(life.on(LinkEvent.LOST))
    assert life.state is LinkState.CONNECTING


def test_a_line_that_comes_and_goes_is_tried_about_once_a_second():
    life = life_that(LinkEvent.WANTED, LinkEvent.CONNECTED, jitter=0.999)
    delays = []
    for _ in range(12):
        for action in life.on(LinkEvent.LOST):
            if action.do is LinkCommand.SCHEDULE:
                delays.append(action.delay)
        if life.state is LinkState.WAITING:
            life.on(LinkEvent.TIMER)
        life.on(LinkEvent.CONNECTED)
    assert len(delays) >= 10
    assert delays == sorted(delays)
    assert delays[-1] == pytest.approx(1.0, rel=0.01)


def test_retries_wait_longer_each_time_up_to_a_bound_and_start_anew_after_a_settled_connection():
    life = life_that(LinkEvent.WANTED)
    delays = []
    for _ in range(10):
        delays += [a.delay for a in life.on(LinkEvent.FAILED) if a.do is LinkCommand.SCHEDULE]
        life.on(LinkEvent.TIMER)
    assert delays[0] <= 0.5
    assert delays == sorted(delays)
    assert delays[-1] == DELAYS.longest / 2  # no jitter: half of it
    for event in (LinkEvent.CONNECTED, LinkEvent.TIMER, LinkEvent.LOST):
        life.on(event)
    (action,) = [a for a in life.on(LinkEvent.FAILED) if a.do is LinkCommand.SCHEDULE]
    assert action.delay <= 1.0


def test_jitter_spreads_retries_over_half_of_the_delay():
    for jitter, expected in ((0.0, DELAYS.first / 2), (0.5, DELAYS.first * 0.75)):
        life = life_that(LinkEvent.WANTED, jitter=jitter)
        (action,) = [a for a in life.on(LinkEvent.FAILED) if a.do is LinkCommand.SCHEDULE]
        assert action.delay == expected


def test_waking_up_asks_a_link_that_is_up_for_an_answer_and_retries_one_that_waits():
    up = life_that(LinkEvent.WANTED, LinkEvent.CONNECTED)
    assert doing(up.on(LinkEvent.WOKE)) == [LinkCommand.PROBE, LinkCommand.REPORT]
    assert up.state is LinkState.SILENT
    waiting = life_that(LinkEvent.WANTED, LinkEvent.FAILED)
    assert LinkCommand.CONNECT in doing(waiting.on(LinkEvent.WOKE))


def test_what_needs_the_user_is_not_retried_until_it_is_asked_for_or_the_host_moved():
    for event in (LinkEvent.WANTED, LinkEvent.MOVED):
        life = life_that(LinkEvent.WANTED, LinkEvent.REFUSED)
        assert life.state is LinkState.NEEDS_ATTENTION
        for nothing in (LinkEvent.TIMER, LinkEvent.WOKE, LinkEvent.LOST, LinkEvent.HEARD):
            assert life.on(nothing) == []
        assert LinkCommand.CONNECT in doing(life.on(event))


def test_a_moved_host_is_connected_to_anew_from_every_wanted_state():
    for events in (
        [LinkEvent.WANTED],
        [LinkEvent.WANTED, LinkEvent.CONNECTED],
        [LinkEvent.WANTED, LinkEvent.CONNECTED, LinkEvent.SILENCE],
        [LinkEvent.WANTED, LinkEvent.FAILED],
        [LinkEvent.WANTED, LinkEvent.REFUSED],
    ):
        life = life_that(*events)
        assert LinkCommand.CONNECT in doing(life.on(LinkEvent.MOVED)), events
        assert life.state is LinkState.CONNECTING


def test_after_a_day_without_the_host_few_attempts_were_made_and_waking_up_makes_one_at_once():
    """On the virtual clock: the machine has none of its own."""
    life, now, attempts = life_that(LinkEvent.WANTED, LinkEvent.CONNECTED, LinkEvent.TIMER), 0.0, 0
    actions = life.on(LinkEvent.LOST)
    while now < 86_400:
        for action in actions:
            attempts += action.do is LinkCommand.CONNECT
            now += action.delay if action.do is LinkCommand.SCHEDULE else 0.0
        actions = life.on(
            LinkEvent.FAILED if life.state is LinkState.CONNECTING else LinkEvent.TIMER
        )
    assert attempts < 86_400 / (DELAYS.longest / 2) + 20
    while life.state is not LinkState.WAITING:
        life.on(LinkEvent.FAILED)
    assert LinkAction(LinkCommand.CONNECT) in life.on(LinkEvent.WOKE)
    assert life.failures == 0, "what happened before the sleep does not count"


def test_a_day_of_silences_that_are_answered_leaves_a_link_as_it_was():
    life = life_that(LinkEvent.WANTED, LinkEvent.CONNECTED, LinkEvent.TIMER)
    for _ in range(86_400 // 15):
        for event in (LinkEvent.SILENCE, LinkEvent.HEARD, LinkEvent.TIMER):
            assert all(action.do is not LinkCommand.CONNECT for action in life.on(event))
    assert (life.state, life.failures) == (LinkState.UP, 0)
