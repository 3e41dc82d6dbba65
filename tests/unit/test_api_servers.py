"""A server's token is only ever sent to a live server of this user."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import raises

from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet.servers import Server, running_servers, server_at

NOBODY = 65534


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def write(folder: Path, port: int, name: str = "jpserver-1.json", **other: Any) -> Path:
    """An info file as Jupyter Server writes it."""
    info = {
        "base_url": "/",
        "hostname": "127.0.0.1",
        "password": False,
        "pid": os.getpid(),
        "port": port,
        "root_dir": "/somewhere",
        "secure": False,
        "sock": "",
        "token": "secret",
        "url": f"http://127.0.0.1:{port}/",
        "version": "2.21.1",
        **other,
    }
    path = folder / name
    path.write_text(json.dumps(info))
    return path


def test_a_live_server_of_this_user_is_found_with_its_token(tmp_path, port):
    write(tmp_path, port, base_url="/user/me/")
    (server,) = running_servers(tmp_path)
    assert server.url == f"http://127.0.0.1:{port}/user/me/"
    assert server.token == "secret"
    assert server.root_dir == "/somewhere"


def test_the_token_is_not_shown_with_a_server(tmp_path, port):
    write(tmp_path, port)
    assert "secret" not in repr(running_servers(tmp_path))


@pytest.mark.parametrize("ip", ["0.0.0.0", "*", ""])
def test_a_server_on_all_addresses_is_reached_through_loopback(ip, tmp_path, port):
    write(tmp_path, port, hostname=ip)
    assert running_servers(tmp_path)[0].url == f"http://127.0.0.1:{port}/"


def test_the_file_of_a_dead_server_is_passed_over_and_left_alone(tmp_path, port):
    path = write(tmp_path, port, pid=2**22 + 1)  # above the kernel's own limit: never alive
    assert running_servers(tmp_path) == []
    assert path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who listens")
def test_a_live_process_that_does_not_listen_is_no_server(tmp_path):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        write(tmp_path, bound.getsockname()[1])
        assert running_servers(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_somebody_else_wrote_is_not_believed(tmp_path, port):
    os.chown(write(tmp_path, port), NOBODY, NOBODY)
    assert running_servers(tmp_path) == []


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "port": 1}', "\xff"]
)
def test_a_damaged_file_hides_no_other_server(content, tmp_path, port):
    (tmp_path / "jpserver-0.json").write_bytes(content.encode("latin-1"))
    write(tmp_path, port)
    assert len(running_servers(tmp_path)) == 1


def test_the_newest_server_comes_first(tmp_path, port):
    for age, name in ((30, "jpserver-1.json"), (10, "jpserver-2.json"), (20, "jpserver-3.json")):
        path = write(tmp_path, port, name, root_dir=name)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    folders = [server.root_dir for server in running_servers(tmp_path)]
    assert folders == ["jpserver-2.json", "jpserver-3.json", "jpserver-1.json"]


def test_a_folder_that_is_not_there_has_no_servers(tmp_path):
    assert running_servers(tmp_path / "none") == []


def test_a_server_is_chosen_by_the_url_that_a_user_sees(tmp_path, port):
    write(tmp_path, port)
    for url in (f"http://localhost:{port}/lab?token=x", f"127.0.0.1:{port}", f"http://h:{port}/"):
        assert server_at(url, tmp_path).token == "secret"


def test_a_url_of_no_server_of_ours_gets_nothing(tmp_path, port):
    write(tmp_path, port)
    with raises(Reason.NOT_FOUND, f"Running: http://127.0.0.1:{port}/"):
        server_at(f"http://127.0.0.1:{port - 1}", tmp_path)


def test_a_server_with_a_password_has_no_token_to_send(tmp_path, port):
    write(tmp_path, port, password=True, token="")
    (server,) = running_servers(tmp_path)
    assert server == Server(
        url=f"http://127.0.0.1:{port}/",
        token="",
        pid=os.getpid(),
        root_dir="/somewhere",
        file=str(tmp_path / "jpserver-1.json"),
        password=True,
        started=server.started,
    )
