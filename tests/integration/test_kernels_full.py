"""A journal that is full: the kernel waits, or it goes on and the oldest output is dropped.

No SSH here: the line to the host lets nothing through for a while (see `local_host.py`).
"""

import re
from collections.abc import Callable, Iterator

import pytest
from jupyter_client.manager import KernelManager
from local_host import LocalHost
from local_kernels import Notebook, local_host, printed
from test_kernels_bad_input import state_of
from traitlets import TraitError
from traitlets.config import Config
from waiting import until

from jupyter_tpu.kernels import TPUProvisioner

MB = 1 << 20
LIMIT = 2 * MB
GAP = re.compile(r"… ([0-9,]+) lines? \([0-9.]+ .?B\) \w+ dropped here: the journal was full\n")

Started = tuple[LocalHost, KernelManager, Notebook]


@pytest.fixture(scope="module")
def remote() -> Iterator[tuple[LocalHost, Callable[..., KernelManager]]]:
    with local_host("full") as host:
        yield host


@pytest.fixture
def start(remote) -> Iterator[Callable[[str], Started]]:
    host, make = remote
    started: list[tuple[KernelManager, Notebook]] = []

    def begin(when_full: str) -> Started:
        options = {"when_full": when_full, "journal_limit": LIMIT}
        manager = make(config=Config({"TPUProvisioner": options}))
        manager.start_kernel()
        started.append((manager, Notebook(manager)))
        return host, *started[-1]

    yield begin
    host.loop_call(host.mend)
    for manager, notebook in started:
        notebook.close()
        manager.shutdown_kernel(now=True)


#: Lines until the test has seen enough: a kernel can be faster than its keeper, whatever it prints.
ENDLESS = "itertools.takewhile(lambda _: not pathlib.Path('enough').exists(), itertools.count())"


def begin_flood(started: Started, lines: str, code: str = "") -> tuple[str, int]:
    """A cell prints *lines* of 4 kB while nothing comes through; its request and process."""
    host, _, notebook = started
    pid = int(notebook.text("import itertools, os, pathlib, time; print(os.getpid())"))
    request = notebook.client.execute(
        "print('begun', flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        f"for i in {lines}: print(i, 'x' * 4000, flush=True)\n{code}\n"
        "pathlib.Path('done').touch()"
    )
    notebook.until_output(request, "begun\n")
    host.loop_call(host.stall)
    (host.home / "go").touch()
    return request, pid


@pytest.fixture(autouse=True)
def files(remote) -> Iterator[None]:
    yield
    for name in ("go", "enough", "done"):
        (remote[0].home / name).unlink(missing_ok=True)


def numbers(text: str) -> list[int]:
    """The numbers of the flood's lines that came."""
    return [int(line.split()[0]) for line in text.splitlines() if line.endswith("xxx")]


def lines_lost(text: str) -> int:
    """By what is told of them."""
    return sum(int(count.replace(",", "")) for count in GAP.findall(text))


def test_usually_the_kernel_waits_until_its_output_is_taken(start):
    started = host, _, notebook = start("pause")
    request, pid = begin_flood(started, ENDLESS)
    until(lambda: state_of(pid) == "T")
    (host.home / "enough").touch()
    host.loop_call(host.mend)
    seen = notebook.until_idle(request)
    # That it waits is said on stderr, where that happens to fall into a line of stdout.
    came = numbers(
        printed([message for message in seen if message["content"].get("name") != "stderr"])
    )
    assert len(came) > 400
    assert came == list(range(len(came)))


def test_dropped_output_is_mentioned_in_the_cell_that_printed_it(start):
    """Two cells have run by the time that anything comes through; each is told of its own."""
    started = host, _, notebook = start("drop")
    first, _ = begin_flood(started, "range(2_000)")
    second = notebook.client.execute(
        "for i in range(2_000): print(i, 'y' * 3997 + 'xxx', flush=True)\n"
        "pathlib.Path('second').touch()"
    )
    until((host.home / "second").exists, 120)
    (host.home / "second").unlink()
    host.loop_call(host.mend)
    for request in (first, second):
        text = printed(notebook.until_idle(request))
        assert lines_lost(text) > 0
        assert len(numbers(text)) + lines_lost(text) == 2_000
        assert notebook.client.get_shell_msg(timeout=60)["content"]["status"] == "ok"


def test_a_choice_that_is_none_is_refused():
    with pytest.raises(TraitError, match=r"'pause', 'drop'"):
        TPUProvisioner(when_full="burn")
    with pytest.raises(TraitError, match="1048576"):
        TPUProvisioner(journal_limit=1000)
