"""When a server is restarted, and what is read of its metrics: without I/O."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.serving.metrics import RequestRates, ServerFigures, read_figures
from jupyter_tpu.on_host.agent.serving.policy import MOST_RESTARTS, ServingPolicy
from jupyter_tpu.on_host.agent.serving.watch import ServerWatch

STEPS = st.lists(st.tuples(st.sampled_from(["ok", "bad", "exit", "start"]), st.floats(0, 100)))


@given(STEPS)
def test_a_server_is_restarted_only_after_it_was_healthy_and_pauses_are_bounded(steps):
    now, healthy = 0.0, False
    policy = ServingPolicy(60.0, now)
    for step, seconds in steps:
        now += seconds
        if step in ("ok", "bad"):
            policy.checked(step == "ok", now)
            healthy |= step == "ok" and policy.start_at is None
        elif step == "start" and policy.start_at is not None:
            policy.started(now)
        elif step == "exit" and policy.start_at is None and policy.exited(now):
            assert healthy
            assert policy.start_at is not None
            assert now < policy.start_at <= now + 60.0


def test_a_server_that_never_stays_healthy_is_given_up():
    policy, now, restarts = ServingPolicy(60.0, 0.0), 0.0, 0
    policy.checked(True, now)
    while policy.exited(now):
        restarts += 1
        now = policy.start_at or now
        policy.started(now)
        policy.checked(True, now)
    assert restarts == MOST_RESTARTS


def test_hosts_restart_together_and_who_exits_first_waits_until_the_others_have_ended():
    policies = [ServingPolicy(60.0, 0.0, group=True) for _ in range(3)]
    first, second, late = policies
    for policy in policies:
        policy.checked(True, 0.0)
    assert first.exited(1.0)
    assert first.start_at is not None
    assert first.start_at - 1.0 > ServerWatch.END_SECONDS
    assert second.follow(1)  # is to be ended; asked twice, it is ended once
    assert second.exited(2.0)
    assert not second.follow(1)
    assert late.exited(2.0)  # by itself, before it is asked
    assert not late.follow(1)
    assert [policy.restarts for policy in policies] == [1, 1, 1]
    first.started(13.0)
    assert first.exited(14.0)
    assert not second.follow(first.restarts), "it is not started yet, so it needs no end"
    assert second.restarts == 2


def test_one_failed_check_is_no_reason_to_restart():
    policy = ServingPolicy(1.0, 0.0)
    policy.checked(True, 0.0)
    policy.checked(False, 10.0)
    assert (policy.state, policy.is_to_end(100.0)) == ("healthy", False)


NAMES = ["vllm:num_requests_waiting", "vllm:request_success_total", "vllm:generation_tokens_total"]
SAMPLE = st.builds("{} {}".format, st.sampled_from(NAMES), st.floats() | st.text())


@example("\n".join(2 * [f"{NAMES[0]} 1.7e308"]))  # whose sum is infinite
@given(st.text() | st.lists(SAMPLE).map("\n".join))
def test_any_text_can_be_read_as_metrics(text):
    figures = read_figures(text)
    values = [] if figures is None else figures[:4]
    assert all(value is None or math.isfinite(value) for value in values)


def test_the_metrics_of_vllm_are_read():
    text = """
# HELP vllm:request_success_total Count of successfully processed requests.
vllm:request_success_total{finished_reason="stop",model_name="m"} 7.0
vllm:request_success_total{finished_reason="length",model_name="m"} 3.0
vllm:generation_tokens_total{model_name="m"} 1200.0
vllm:num_requests_waiting{model_name="m"} 2.0
vllm:num_requests_running{model_name="m"} 1.0
"""
    assert read_figures(text) == ServerFigures(10.0, 1200.0, 2.0, 1.0)


def test_requests_that_are_not_answered_are_noticed():
    rates = RequestRates()
    for now, tokens, waiting, since in (
        (0.0, 5.0, 2.0, None),
        (15.0, 6.0, 2.0, None),
        (30.0, 6.0, 2.0, 15.0),
        (45.0, 6.0, 3.0, 15.0),
        (60.0, 7.0, 3.0, None),
        (75.0, 7.0, 0.0, None),
    ):
        rates.look(ServerFigures(1.0, tokens, waiting, 0.0), now, 0)
        assert (now, rates.stalled) == (now, since)


def test_health_checks_are_no_work_whether_a_label_names_their_path_or_not():
    labelled = 'http_requests_total{handler="/health"} %d\nhttp_requests_total{handler="/v1"} %d'
    first, second = (
        read_figures(labelled % (5, 1), ["/health"]),
        read_figures(labelled % (9, 1), ["/health"]),
    )
    assert first is not None
    assert second is not None
    rates = RequestRates()
    rates.look(first, 0.0, 1)
    rates.look(second, 15.0, 4)
    assert (rates.requests, rates.worked) == (0.0, False)
    rates = RequestRates()
    rates.look(ServerFigures(5.0, None, None, 1.0, own=True), 0.0, 1)
    rates.look(ServerFigures(9.0, None, None, 1.0, own=True), 15.0, 4)
    assert rates.worked is False
    rates.look(ServerFigures(16.0, None, None, 1.0, own=True), 30.0, 4)
    assert (rates.requests, rates.worked) == (0.2, True)
