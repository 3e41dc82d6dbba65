"""What a host says about its files, to the file browser and to a download, may be anybody's."""

import json
import os
import sys
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from project_host import ProjectHost

from jupyter_tpu.bounds import inflate
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.files.contents import HostContents
from jupyter_tpu.fleet.files.files import HostFiles
from jupyter_tpu.on_host.files import requests
from jupyter_tpu.ssh.address import HostAddress
from jupyter_tpu.ssh.login_shell import CommandStart
from jupyter_tpu.ssh.stream import CommandStream


class SayingHost(ProjectHost):
    """Whatever it is to run, it says *output*."""

    def __init__(self, home: Path, output: bytes) -> None:
        super().__init__(home)
        (home / "output").write_bytes(output)

    def stream_bulk(self, argv: Any) -> Any:
        copy = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
        return super().stream_bulk([sys.executable, "-c", copy, str(self.home / "output")])


def line(**answer: Any) -> bytes:
    return json.dumps(answer).encode() + b"\n"


MODEL = {
    "path": "a",
    "kind": "file",
    "size": 1,
    "created": 1.0,
    "modified": 1.0,
    "writable": True,
}


@pytest.mark.parametrize(
    "output",
    [
        line(model=MODEL, size=-1),
        line(model=MODEL, size=1 << 40),
        line(model=MODEL, size="1"),
        line(model=[], size=0),
        line(model={}, size=0),
        line(model={**MODEL, "created": 1e300}, size=0),
        line(model={**MODEL, "kind": "device"}, size=0),
        line(model={**MODEL, "hash": "\x1b[2J"}, size=0),
        line(error=5),
        b"[]\n",
        b"[" * 50_000 + b"\n",
        b"\xff\n",
        line(model={**MODEL, "kind": "directory"}, size=2) + b"[]5"[:1] + b"x",
        line(model={**MODEL, "kind": "directory"}, size=9) + b'[{"a": 1}]',
    ],
)
async def test_an_answer_of_the_file_browser_that_is_none_is_one_clear_error(tmp_path, output):
    with pytest.raises(TPUError) as failed:
        await HostContents(SayingHost(tmp_path / "h", output)).get("a")
    assert failed.value.reason in (Reason.INTERNAL, Reason.UNAVAILABLE)


async def test_a_folder_has_no_more_files_than_are_listed(tmp_path):
    data = json.dumps([MODEL] * 5001).encode()
    output = line(model={**MODEL, "kind": "directory"}, size=len(data)) + data
    with pytest.raises(TPUError, match="Expected `array` of length <= 5000"):
        await HostContents(SayingHost(tmp_path / "h", output)).get("a")


async def test_a_notebook_that_is_nested_too_deeply_is_not_a_notebook(tmp_path):
    data = b"[" * 100_000
    output = line(model={**MODEL, "path": "a.ipynb"}, size=len(data)) + data
    with pytest.raises(TPUError, match="is not a notebook"):
        await HostContents(SayingHost(tmp_path / "h", output)).get("a")


async def test_a_download_ends_at_the_size_of_the_file(tmp_path):
    host: Any = SayingHost(tmp_path / "h", line(size=3) + b"x" * 5)
    with pytest.raises(TPUError, match="more than its size"):
        async with HostFiles(host).download("a") as (_, content):
            [part async for part in content]


@pytest.mark.parametrize("answer", [{"size": -1}, {"size": "1"}, {"error": {}}, {"size": 1e300}])
async def test_a_size_that_is_none_is_one_clear_error(tmp_path, answer):
    with pytest.raises(TPUError) as failed:
        await HostFiles(SayingHost(tmp_path / "h", line(**answer))).describe("a")
    assert "sent an invalid answer" in failed.value.message


async def test_a_line_without_an_end_is_read_up_to_its_bound():
    address = HostAddress(
        address="127.0.0.1", user="me", host_keys=(), alias="tpu.1-0", identity_file=Path("id")
    )
    stream = CommandStream(lambda: TPUError("lost"), CommandStart(address))
    stream._reader.feed_data(b"x" * (1 << 20))
    with pytest.raises(TPUError, match="a line of more than 256 kB"):
        await stream.read_line()


async def test_what_is_unpacked_has_a_bound():
    import gzip
    import zlib

    assert inflate(zlib.compress(b"x" * 100), 100) == b"x" * 100
    assert inflate(gzip.compress(b"x" * 100), 100, gzip=True) == b"x" * 100
    with pytest.raises(ValueError, match="more than"):
        inflate(zlib.compress(b"x" * 100), 99)
    with pytest.raises(ValueError, match="cut off"):
        inflate(zlib.compress(b"x" * 100)[:-1], 100)
    with pytest.raises(ValueError, match="incorrect"):
        inflate(b"xx", 100)


async def test_an_upload_in_parts_does_not_write_what_others_put_in_its_place(
    tmp_path, monkeypatch
):
    """The folder is shared. The program of the host runs here."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.write_text("mine")

    def save(chunk: int) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=BytesIO(b"abc")))
        requests.save(os.fsencode(shared / "file"), 3, chunk)

    save(1)
    (part,) = shared.iterdir()
    assert part.name.startswith(".jupyter-tpu-")
    for put in (os.symlink, os.link):
        part.unlink()
        put(own, part)
        with pytest.raises(OSError, match=r"symbolic link|somebody else"):
            save(2)
    save(1)  # begins anew
    save(-1)
    assert (shared / "file").read_text() == "abcabc"
    assert own.read_text() == "mine"
