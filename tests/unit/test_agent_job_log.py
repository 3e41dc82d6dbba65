"""A job's log on disk: reading a line costs what that line costs, wherever it is."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_tpu.on_host.agent.daemon import jobs as daemon_jobs
from jupyter_tpu.on_host.agent.keeper import job_log
from jupyter_tpu.on_host.agent.keeper.job_log import JobLogWriter, last_number, read_log

COUNT = 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    log = JobLogWriter(str(folder))
    text = "".join(f"line {number} {'x' * (number % 97)}\n" for number in range(1, COUNT + 1))
    log.feed("out", text.encode())
    log.close()
    return folder


class Parsed:
    """Counts the lines that are parsed."""

    def __init__(self) -> None:
        self.count = 0

    def loads(self, data: bytes) -> object:
        self.count += 1
        return json.loads(data)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parsed]:
    counting = Parsed()
    monkeypatch.setattr(job_log, "json", counting)
    return counting


@pytest.mark.parametrize("start", [1, 2, 7777, COUNT - 1, COUNT])
def test_a_line_anywhere_is_read_without_those_before_it(folder, parsed, start):
    part = read_log(str(folder), start, 3)
    assert [line.number for line in part.lines] == list(range(start, COUNT + 1))[:3]
    assert part.lines[0].text.startswith(f"line {start} ")
    assert parsed.count <= 4


def test_nothing_new_costs_nothing(folder, parsed):
    assert read_log(str(folder), COUNT + 1, 1000).lines == []
    assert last_number(str(folder)) == COUNT
    assert parsed.count == 0


def test_a_line_that_is_being_written_is_not_read(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "log")
    [path] = (tmp_path / "log").iterdir()
    with path.open("ab") as file:
        file.write(b'[20001,1,"out","half of')
    assert last_number(str(path.parent)) == COUNT
    assert [line.number for line in read_log(str(path.parent), COUNT, 9).lines] == [COUNT]


def test_lines_of_all_lengths_are_found(tmp_path):
    log = JobLogWriter(str(tmp_path))
    for length in (0, 1, 40_000, 5, 32_768, 3, 100_000, 0):
        log.feed("out", b"\xe3\x81\x82" * length + b"\n")
    log.close()
    all_lines = read_log(str(tmp_path), 1, 1000).lines
    assert last_number(str(tmp_path)) == len(all_lines)
    for line in all_lines:
        assert read_log(str(tmp_path), line.number, 1).lines == [line]


def test_an_answer_has_a_limit_in_bytes(tmp_path):
    log = JobLogWriter(str(tmp_path))
    log.feed("out", ("あ" * 1000 + "\n").encode() * 100)
    log.close()
    at, numbers = 1, []
    while (part := read_log(str(tmp_path), at, 1000, scan=50_000)).lines:
        assert len(json.dumps(part.lines)) < 50_000 + 10_000
        numbers += [line.number for line in part.lines]
        at = part.next
    assert numbers == list(range(1, 101))


def test_a_folder_that_is_removed_meanwhile_has_no_size(tmp_path):
    """Another client removes jobs while a start makes room for another one."""
    ended = threading.Event()

    def remove() -> None:
        while not ended.is_set():
            for number in range(20):
                (tmp_path / "job").mkdir(exist_ok=True)
                (tmp_path / f"job/log-{number}").touch()
            shutil.rmtree(tmp_path / "job")

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        for _ in range(500):
            assert daemon_jobs._size(str(tmp_path / "job")) == 0
    finally:
        ended.set()
        thread.join()
    assert daemon_jobs._size(str(tmp_path / "none")) == 0
