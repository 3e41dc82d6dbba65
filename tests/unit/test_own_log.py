"""jupyter-tpu's own log: several processes write one file, which stays small and has no secret."""

import logging
import os
import subprocess
import sys

import pytest

from jupyter_tpu import own_log
from jupyter_tpu.commands.bug_report import NameCleaner
from jupyter_tpu.errors import TPUError

PROCESSES, LINES = 4, 1500


def texts() -> list[str]:
    own_log.flush()
    return [line.text for line in own_log.read()[0]]


def test_lines_of_several_processes_are_whole_and_the_files_stay_small(own_data):
    """Each writes more than a file takes, so that they are rotated meanwhile."""
    code = (
        "import sys; from jupyter_tpu import own_log\n"
        f"for number in range({LINES}):\n"
        "    own_log.happened(f'{sys.argv[1]} {number} ' + 'x' * 900)\n"
        "    if number % 100 == 0: own_log.flush(60)\n"
        "own_log.flush(60)\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(PROCESSES)
    ]
    assert [writer.wait(120) for writer in writers] == [0] * PROCESSES
    files = list((own_data / "log").glob("*.jsonl"))
    assert len(files) == own_log.KEPT_FILES + 1
    bound = (own_log.KEPT_FILES + 1) * own_log.FILE_BYTES + PROCESSES * own_log.BATCH_BYTES * len(
        files
    )
    assert sum(file.stat().st_size for file in files) <= bound
    raw = sum(len(file.read_bytes().splitlines()) for file in files)
    kept = [line.text.split() for line in own_log.read()[0]]
    assert len(kept) == raw > LINES  # every line can be read
    for writer in range(PROCESSES):  # and those of one process are in order
        numbers = [int(number) for name, number, _ in kept if name == str(writer)]
        assert numbers == sorted(numbers)
        assert numbers[-1] == LINES - 1


def test_who_follows_it_gets_lines_over_a_rotation(own_data, monkeypatch):
    monkeypatch.setattr(own_log, "FILE_BYTES", 1000)
    monkeypatch.setattr(own_log, "FOLLOW_SECONDS", 0.01)
    own_log.happened("before")
    own_log.flush()
    kept, coming = own_log.read()
    assert [line.text for line in kept] == ["before"]
    for number in range(20):
        own_log.happened(f"{number} {'x' * 200}")
        own_log.flush()
        assert next(coming).text.startswith(f"{number} ")
    assert (own_data / "log" / f"jupyter-tpu.{own_log.KEPT_FILES}.jsonl").exists()


@pytest.mark.parametrize(
    "secret",
    [
        "ya29.a0AfH6SMBx-_1234567890",
        "hf_abcdefghijklmnopqrstuvwx",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhY2NvdW50cyJ9.c2lnbmF0dXJl",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n"
        "-----END OPENSSH PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_left_out(own_data, secret):
    own_log.happened(f"up → waiting: the proxy said {secret} and closed")
    own_log.happened("GET /?token=0123456789abcdef&x=1 with Bearer abc.def-123456")
    assert texts() == [
        "up → waiting: the proxy said [secret] and closed",
        "GET /?token=[secret]&x=1 with Bearer [secret]",
    ]


def test_a_token_that_tpus_get_is_left_out_by_its_value(own_data, monkeypatch):
    from jupyter_tpu import tokens

    monkeypatch.setenv("MY_DATA", "Qx7LkP2vRt9bNw4s")
    tokens.pass_on("MY_DATA")
    own_log.happened("the host said Qx7LkP2vRt9bNw4s")
    assert texts() == ["the host said [MY_DATA]"]


def test_warnings_are_in_it_and_are_still_printed_where_no_one_handles_them(own_data):
    code = (
        "import logging; from jupyter_tpu import own_log; own_log.happened('up')\n"
        "logging.getLogger('jupyter_tpu.x').warning('watch out'); own_log.flush()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "watch out\n"
    assert texts() == ["up", "jupyter_tpu.x: watch out"]


def test_a_state_is_also_said_to_who_asks_for_debug_lines(own_data, caplog):
    own_log.happened("not asked for")
    with caplog.at_level(logging.DEBUG, "jupyter_tpu"):
        own_log.happened("up → silent", tpu="my-tpu")
    assert [record.getMessage() for record in caplog.records] == ["my-tpu: up → silent"]
    assert texts() == ["not asked for", "up → silent"]


def test_a_log_that_cant_be_written_disturbs_nothing(own_data):
    own_data.mkdir()
    (own_data / "log").write_text("no folder")
    own_log.happened("up")
    own_log.flush()
    with pytest.raises(TPUError, match="There is no log"):
        own_log.read()
    assert (own_data / "log").read_text() == "no folder"


def test_a_link_in_the_place_of_the_file_is_not_followed(own_data):
    (own_data / "log").mkdir(parents=True)
    other = own_data / "other"
    other.write_text("")
    os.symlink(other, own_data / "log" / "jupyter-tpu.jsonl")
    own_log.happened("up")
    own_log.flush()
    assert other.read_text() == ""


def cleaner() -> NameCleaner:
    names = NameCleaner()
    names.add("project", ["acme-research-42"])
    names.add("TPU", ["ann-tpu", "ann-tpu-2"])
    names.add("user", ["ann"])
    names.add_secrets({"s3cr3t-value": "MY_TOKEN"})
    return names


@pytest.mark.parametrize(
    ("private", "clean"),
    [
        ("ann-tpu-2 and ann-tpu of Ann", "TPU-2 and TPU-1 of user-1"),
        (
            "projects/acme-research-42/locations/us-west4-a",
            "projects/project-1/locations/us-west4-a",
        ),
        ("ssh ann@10.128.0.7 -p 22", "ssh [e-mail] -p 22"),
        ("10.128.0.7:22 refused", "[address]:22 refused"),
        ("at 2001:db8::7 since 12:34:56", "at [address] since 12:34:56"),
        ("write to ann.lee@acme.example", "write to [e-mail]"),
        ("/home/ann/data/x.csv is missing", "[path] is missing"),
        ("/x/lib/site-packages/asyncssh/misc.py", "…/site-packages/asyncssh/misc.py"),
        ("~/secret-project/train.py", "[path]"),
        (r"C:\Users\ann\x.txt is missing", "[path] is missing"),
        ("https://proxy.acme.example/x?y=1 failed", "[URL] failed"),
        ("see https://cloud.google.com/tpu", "see https://cloud.google.com/tpu"),
        ("https://cloud.google.com.evil.example/x", "[URL]"),
        ("t1v-n-1a2b3c4d-w-0 and host.c.acme.internal", "[host] and [host]"),
        ("node 1234567890123456789", "node [number]"),
        ("it said s3cr3t-value", "it said [MY_TOKEN]"),
        ("SHA256:AAAAC3NzaC1lZDI1NTE5AAAAIDbZ4JxQ8m2fX0y", "[secret]"),
        ("127.0.0.1 and us-west4-a and v5litepod-8", "127.0.0.1 and us-west4-a and v5litepod-8"),
        ("annotate the channel", "annotate the channel"),
    ],
)
def test_a_report_keeps_what_is_public_only(private, clean):
    assert cleaner().clean(private) == clean
