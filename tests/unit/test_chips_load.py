"""The table of `jupyter tpu top`: a line per chip, or per host where there are too many."""

import time

from jupyter_tpu.commands.top import load_text, load_view, render
from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet.models import ChipBooking, ChipLoad, HostLoad, LoadSample, Problem, TPULoad
from jupyter_tpu.server.prometheus import STALE_SECONDS, exposition

GIB = 2**30


def host(number: int, *duties: float, age: float = 0.0, queue: int | None = None) -> HostLoad:
    def sample(ago: float, share: float) -> LoadSample:
        chips = [
            ChipLoad(memory_used=4 * GIB, memory_total=16 * GIB, duty_cycle=duty * share)
            for duty in duties
        ]
        now = time.time() - age - ago
        return LoadSample(time=now, state="ok", chips=chips, queue=queue)

    return HostLoad(host=number, chips=len(duties), samples=[sample(2, 0.5), sample(0, 1.0)])


def tpu(*hosts: HostLoad, emulated: bool = False) -> TPULoad:
    return TPULoad(tpu="t", zone="z", type="v5litepod-4", emulated=emulated, hosts=[*hosts])


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_each_chip_has_its_memory_its_duty_cycle_and_what_was_before():
    title, heads, first, second, *_ = words(load_text([tpu(host(0, 100.0, 50.0, queue=3))]))
    assert title == ["t", "v5litepod-4", "z"]
    assert heads == ["HOST", "CHIP", "HBM", "DUTY", "CYCLE", "QUEUE", "BEFORE"]
    memory = ["███", "4.0", "/", "16.0", "GiB", "25", "%"]
    assert first == ["0", "0", *memory, "████████████", "100", "%", "3", "▅█"]
    assert second == ["0", "1", *memory, "██████", "50", "%", "▃▅"]


def test_chips_that_a_kernel_has_for_itself_have_its_notebook():
    apart = host(0, 100.0, 50.0, 0.0)
    apart.samples[-1].chips[2] = ChipLoad()
    apart.bookings = [
        ChipBooking(chips=[0], kernel="k", notebook="deep/er/train.ipynb"),
        ChipBooking(chips=[1], kernel="1b671a64-40d5"),
    ]
    _, heads, *rows = words(load_text([tpu(apart)]))
    assert heads[-1] == "KERNEL"
    assert [row[-1] for row in rows[:2]] == ["train.ipynb", "1b671a64"]
    assert rows[2][:3] == ["0", "2", "▁"]


def test_hosts_have_one_line_each_where_chips_are_more_than_lines():
    hosts = [host(number, 100.0, 20.0) for number in range(12)]
    lines = words(render(load_view([tpu(*hosts)], lines=16, width=80)))
    last = ["11", "all", "2", "█▌", "8.0", "/", "32.0", "GiB", "25", "%", "███▌", "60", "%", "▃▅"]
    assert lines[13] == last
    assert "QUEUE" not in lines[1]  # nobody reports one


def test_the_memory_of_a_host_is_not_shown_where_that_of_a_chip_is_not_known():
    hosts = [host(number, 100.0, 20.0) for number in range(12)]
    for load in hosts:
        load.samples[-1].chips[0].memory_used = None
    heads, first = words(render(load_view([tpu(*hosts)], lines=16, width=80)))[1:3]
    assert "HBM" not in heads
    assert first == ["0", "all", "2", "███▌", "60", "%", "▃▅"]


def test_what_is_wrong_is_reported_once_for_all_hosts_with_it():
    idle = [HostLoad(host=n, message="No process uses the chips.") for n in (0, 1, 3)]
    for load in idle:
        load.samples = [LoadSample(time=time.time(), state="idle")]
    cut = Problem(message="The link is down.", reason=Reason.UNREACHABLE)
    unknown = HostLoad(host=2, problem=cut)
    old = host(4, 1.0, age=600)
    old.errors = ["core halted"]
    text = load_text([tpu(*idle[:2], unknown, idle[2], old, HostLoad(host=5))])
    for line in (
        "Hosts 0-1, 3: No process uses the chips.",
        "Host 2: The link is down.",
        "Host 4: These figures are 10 minutes old.",
        "Host 4: libtpu reports an error: core halted",
        "Host 5: No figures yet.",
    ):
        assert line in text.splitlines()
    assert load_text([]) == "No TPU is connected. Connect one: jupyter tpu connect NAME"


def test_prometheus_gets_what_is_known_and_nothing_old():
    unknown = host(1)
    unknown.samples[-1].chips = [ChipLoad(duty_cycle=12.5)]
    old = host(2, 1.0, age=STALE_SECONDS + 1)
    idle = HostLoad(host=3, samples=[LoadSample(time=time.time(), state="idle")])
    loads = [tpu(host(0, 100.0, queue=2)), tpu(unknown, old, idle, emulated=True)]
    lines = exposition(loads, time.time()).splitlines()
    real, emulated = 'tpu="t",zone="z",host=', 'tpu="t",zone="z",emulated="true",host='
    assert [line for line in lines if not line.startswith("#")] == [
        f'tpu_hbm_used_bytes{{{real}"0",chip="0"}} 4294967296',
        f'tpu_hbm_total_bytes{{{real}"0",chip="0"}} 17179869184',
        f'tpu_duty_cycle_percent{{{real}"0",chip="0"}} 100',
        f'tpu_duty_cycle_percent{{{emulated}"1",chip="0"}} 12.5',
        f'tpu_queued_programs{{{real}"0"}} 2',
        f'tpu_host_in_use{{{real}"0"}} 1',
        f'tpu_host_in_use{{{emulated}"1"}} 1',
        f'tpu_host_in_use{{{emulated}"3"}} 0',
    ]
    assert lines.count("# TYPE tpu_host_in_use gauge") == 1
