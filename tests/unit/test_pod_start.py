"""The start of a pod kernel, in any order in which its hosts answer."""

import inspect
import os
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.keeper import pod_member
from jupyter_tpu.on_host.agent.pod.pod_start import LIMITS, PodStart

JOINED = {"jax": "0.10", "devices": 12, "local": 4, "processes": 3, "kind": "TPU v5"}
REPORT = {"versions": {"Python": "3.11.2"}, "folder": "/home/me", "files": {}}
ANSWERS: dict[str, dict[str, Any]] = {
    "kernels": {}, "report": REPORT, "join": JOINED, "check": {},
}  # fmt: skip


def test_hosts_are_asked_for_everything_as_soon_as_they_and_host_0_answer():
    start = PodStart(3, 0.0)
    assert not start.answered(2, "kernels", {}, 1.0)
    assert start.due("10.0.0.2:8476") == [], "nobody coordinates yet"
    start.answered(0, "kernels", {}, 2.0)
    asks = start.due("10.0.0.2:8476")
    assert [(ask.host, ask.do) for ask in asks] == [
        (host, part) for host in (0, 2) for part in ("report", "join", "check")
    ]
    binds = [ask.arguments["bind"] for ask in asks if ask.do == "join"]
    assert binds == ["10.0.0.2:8476", ""], "only host 0 listens"
    assert start.due("10.0.0.2:8476") == [], "once"
    assert start.waiting == "Waiting for the kernel of host 1 to start."


@given(st.data())
def test_it_ends_without_a_problem_in_every_order_of_answers(data):
    start, pending = PodStart(3, 0.0), {host: list(LIMITS) for host in range(3)}
    while any(pending.values()):
        hosts = [host for host, parts in pending.items() if parts]
        host = data.draw(st.sampled_from(hosts))
        # The report is made while the host joins.
        late = len(pending[host]) > 1 and pending[host][0] == "report" and data.draw(st.booleans())
        part = pending[host].pop(1 if late else 0)
        assert start.part, "it has not ended before all have answered"
        done = start.answered(host, part, ANSWERS[part], 1.0)
        assert done == (not any(pending.values()))
    assert (start.problem, start.notices, start.joined, start.waiting) == ("", [], True, "")


def test_a_problem_says_in_what_the_hosts_differ():
    start = PodStart(2, 0.0)
    for host in (0, 1):
        start.answered(host, "kernels", {}, 0.0)
        versions = {"versions": {"jax": f"0.{host}"}, "folder": "/"}
        start.answered(host, "report", versions, 0.0)
    assert start.answered(1, "join", {"problem": "RuntimeError: no."}, 0.0)
    assert start.problem == (
        "Host 1 could not join: RuntimeError: no. "
        "Hosts differ in jax: 0.0 on host 0; 0.1 on host 1."
    )


def test_devices_that_do_not_add_up_end_the_start_before_the_check():
    start = PodStart(2, 0.0)
    for host in (0, 1):
        for part in ("kernels", "report"):
            start.answered(host, part, ANSWERS[part], 0.0)
    start.answered(0, "join", {**JOINED, "devices": 4, "processes": 1}, 0.0)
    assert start.answered(1, "join", {**JOINED, "devices": 8, "processes": 2}, 0.0)
    assert start.problem == ("JAX on host 0 sees 4 devices of 1 hosts. All hosts together have 8.")
    assert not start.answered(0, "check", {"problem": "late"}, 0.0)


def test_each_part_has_its_own_time():
    start = PodStart(2, 0.0)
    start.answered(0, "kernels", {}, 80.0)
    assert not start.tick(89.0)
    start.answered(1, "kernels", {}, 89.0)
    assert not start.tick(89.0 + LIMITS["report"] - 1)
    for host in (0, 1):
        start.answered(host, "report", REPORT, 100.0)
    assert not start.tick(100.0 + LIMITS["join"] - 1)
    assert start.tick(100.0 + LIMITS["join"])
    assert start.problem == (
        "Waiting for hosts 0, 1 to join the other hosts. That took more than 180 s."
    )


def test_equal_code_is_equal_however_busy_a_host_is(tmp_path, monkeypatch):
    names = {f"package/module_{number}.py" for number in range(300)}
    (tmp_path / "package").mkdir()
    for name in names:
        (tmp_path / name).write_text(name)
    clock = iter(range(0, 10**9, 10))  # seconds pass at each look
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    files = pod_member.code_files(str(tmp_path))
    assert set(files) == names
    # Where there is too much to look at, nothing is said.
    monkeypatch.setattr(pod_member, "MOST_NAMES", 100)
    assert pod_member.code_files(str(tmp_path)) is None
    start = PodStart(2, 0.0)
    for host, found in ((0, files), (1, None)):
        start.answered(host, "kernels", {}, 0.0)
        start.answered(host, "report", {**REPORT, "files": found}, 0.0)
    start.answered(1, "join", {"problem": "RuntimeError: no."}, 0.0)
    assert start.problem == "Host 1 could not join: RuntimeError: no."


@pytest.mark.parametrize(
    ("folder", "writes"),
    [
        ("~/.jupyter-tpu/environments/default/jax-cache", True),
        ("~/.cache/jupyter-tpu/jax", True),
        ("~/.jupyter-tpu-mine/cache", False),
        ("gs://bucket/cache", False),
        ("/mnt/all-hosts/cache", False),
        (None, False),
    ],
)
def test_a_host_other_than_0_writes_what_it_compiled_into_our_own_folder_only(
    monkeypatch, folder, writes
):
    from jax._src import compilation_cache, compiler, distributed

    before = compiler._cache_write
    written: list[str] = []
    monkeypatch.setattr(compiler, "_cache_write", before)
    monkeypatch.setattr(distributed.global_state, "process_id", 1)
    monkeypatch.setattr(
        compilation_cache, "put_executable_and_time", lambda key, *_: written.append(key)
    )
    cache = folder and os.path.expanduser(folder)
    config = SimpleNamespace(jax_compilation_cache_dir=cache)
    pod_member.write_compiled_programs(SimpleNamespace(config=config))
    arguments = dict.fromkeys(inspect.signature(before).parameters)
    compiler._cache_write(**{**arguments, "cache_key": "key", "compile_time_secs": 5.0})
    assert written == ["key"] * writes


def test_a_jax_that_is_built_in_another_way_is_left_alone(monkeypatch):
    from jax._src import compiler

    def other(*_: Any) -> None:
        """Asks for no process."""

    monkeypatch.setattr(compiler, "_cache_write", other)
    pod_member.write_compiled_programs(SimpleNamespace())
    assert compiler._cache_write is other
    monkeypatch.delattr(compiler, "_cache_write")
    pod_member.write_compiled_programs(SimpleNamespace())
    assert not hasattr(compiler, "_cache_write")
