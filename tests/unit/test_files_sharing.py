"""Shared folders: the files that hosts get, as systemd and exports(5) read them, and who can't."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from jupyter_tpu.errors import InvalidInput, TPUError
from jupyter_tpu.files import sharing
from jupyter_tpu.files.sharing import Client, Share, ShareHeader, SharingHost
from jupyter_tpu.fleet.files.shares import _plans
from jupyter_tpu.fleet.models import ShareFolder, ShareResult

ODD = "/home/me/my data-1/50% (new) 'x' \"日本\" #"


def a_share(path: str = "/home/me/shared") -> Share:
    clients = (Client("pod", 1, "10.0.0.2"), Client("other", 0, "10.0.0.9"))
    return Share(tpu="pod", path=path, address="10.0.0.1", clients=clients)


def a_host(**changes: Any) -> SharingHost:
    host = SharingHost(
        user="me",
        uid=1001,
        gid=1002,
        home="/home/me",
        path="/home/me/shared",
        root=True,
        systemd=True,
        server_kernel=True,
        client_kernel=True,
        server_tools=True,
        client_tools=True,
        apt=True,
        state="missing",
        mounted="",
        shares=[],
    )
    return replace(host, **changes)


def exports_of(text: str) -> tuple[str, list[str]]:
    """Path and clients of an export, read as exports(5) says: octal codes stand for characters."""
    (line,) = [line for line in text.splitlines() if not line.startswith("#")]
    path, *clients = line.split()
    raw = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), path.encode())
    return raw.decode(), clients


@pytest.mark.parametrize("path", ["/home/me/shared", ODD])
def test_a_folder_is_exported_to_the_hosts_only_and_as_its_user(path):
    exported, clients = exports_of(sharing.exports_text(a_share(path), 1001, 1002))
    assert exported == path
    assert [client.partition("(")[0] for client in clients] == ["10.0.0.2", "10.0.0.9"]
    for client in clients:
        options = client.partition("(")[2].rstrip(")").split(",")
        assert {"rw", "all_squash", "anonuid=1001", "anongid=1002"} <= set(options)
        assert "no_root_squash" not in options


@pytest.mark.parametrize(
    "path", ["/home/me/shared", ODD, "/.a", "/a.b/-c", "/a/.b", "/x:y_z", "/é"]
)
def test_units_have_the_names_that_systemd_gives_them(path):
    if not shutil.which("systemd-escape"):
        pytest.skip("SKIPPED FOR WANT OF systemd-escape")
    told = subprocess.run(
        ["systemd-escape", "--path", "--", path], capture_output=True, text=True, check=True
    )
    assert sharing.unit_name(path) == told.stdout.rstrip("\n")


@pytest.mark.parametrize("path", ["/home/me/shared", ODD])
def test_systemd_accepts_the_units(path, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("SKIPPED FOR WANT OF systemd-analyze")
    name = sharing.unit_name(path)
    (tmp_path / f"{name}.mount").write_text(sharing.mount_unit(a_share(path)))
    unit = tmp_path / f"{name}.automount"
    unit.write_text(sharing.automount_unit(a_share(path)))
    for unit_file in (tmp_path / f"{name}.mount", unit):
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit_file)],
            capture_output=True,
            text=True,
        )
        complaints = [line for line in checked.stderr.splitlines() if str(tmp_path) in line]
        assert (checked.returncode, complaints) == (0, []), checked.stderr


def test_our_files_say_what_they_share():
    share = a_share(ODD)
    for text in (
        sharing.exports_text(share, 1, 1),
        sharing.mount_unit(share),
        sharing.automount_unit(share),
    ):
        first = text.splitlines()[0]
        said = json.loads(first.removeprefix("# jupyter-tpu: "))
        header = convert({**said, "role": "client", "mounted": True}, ShareHeader)
        assert sharing.share_of(header) == share


@pytest.mark.parametrize(
    "folder",
    ["", "/", "~", "~/", ".", "..", "a/../b", "a//b", "a\nb", "a\0b", "a\\b", "a ", " a"],
)
def test_a_folder_that_can_not_be_shared_is_refused(folder):
    with pytest.raises(InvalidInput):
        sharing.check_folder(folder)


def test_a_folder_is_in_the_home_folder_or_absolute():
    given = ["shared", "~/a b/", "/mnt/data"]
    assert [sharing.check_folder(folder) for folder in given] == ["shared", "a b", "/mnt/data"]


@pytest.mark.parametrize(
    ("changes", "server", "why"),
    [
        ({"systemd": False, "client_kernel": False}, False, "no systemd and its kernel has no NFS"),
        ({"server_kernel": False}, True, "its kernel has no NFS"),
        ({"server_kernel": False}, False, ""),
        ({"root": False}, True, "me may not use sudo"),
        ({"client_tools": False, "apt": False}, False, "NFS programs are missing"),
        ({"state": "other"}, True, "not a folder of me"),
        ({"state": "folder"}, True, ""),
        ({"state": "folder"}, False, "which the shared folder would hide"),
        ({"state": "folder", "mounted": "nfs4"}, False, ""),
        ({"state": "empty", "mounted": "ext4"}, False, "something else is mounted"),
        ({"mounted": "nfs4"}, True, "itself on another host"),
    ],
)
def test_a_host_that_can_not_share_says_why(changes, server, why):
    reason, hint = sharing.why_not(a_host(**changes), server=server)
    assert (why in reason) if why else not reason
    assert bool(hint) == bool(why)


def test_packages_are_installed_only_where_they_are_missing():
    share = a_share()
    for make in (sharing.server_steps, sharing.client_steps):
        assert "packages" not in [step["do"] for step in make(share, a_host())]
        steps = make(share, a_host(server_tools=False, client_tools=False))
        assert steps[0]["do"] == "packages"


def test_those_that_keep_a_folder_stay_in_its_export():
    kept = (Client("pod", 1, "10.0.0.2"),)
    step, _ = sharing.server_removal(a_share(), kept, a_host())
    assert [client.partition("(")[0] for client in exports_of(step["text"])[1]] == ["10.0.0.2"]
    step, _ = sharing.server_removal(a_share(), (), a_host())
    assert step["do"] == "delete"


def test_each_step_is_shown():
    share, host = a_share(), a_host(server_tools=False)
    steps = [*sharing.server_steps(share, host), *sharing.client_steps(share, host)]
    steps += [*sharing.client_removal(share), *sharing.server_removal(share, (), host)]
    shown = [sharing.step_text(step) for step in steps]
    assert "systemctl enable --now home-me-shared.automount" in shown
    assert "apt-get install nfs-kernel-server" in shown
    assert all(shown)


def test_host_0_does_not_choose_where_others_have_its_folder():
    """It says that the shared folder is /etc/ssh; the others were asked for ~/shared."""
    first, second = Client("pod", 0, "10.0.0.1"), Client("pod", 1, "10.0.0.2")
    share = Share(tpu="pod", path="/etc/ssh", address="10.0.0.1", clients=(second,))
    known = {first: a_host(path="/etc/ssh"), second: a_host()}
    result = ShareResult(request=ShareFolder(folder="shared"), path="/etc/ssh")
    with pytest.raises(TPUError, match="the folder would be /home/me/shared, and on host 0"):
        _plans(share, (), first, known, result)
    known[second] = a_host(path="/etc/ssh")
    assert set(_plans(share, (), first, known, result)) == {first, second}


def test_host_0_does_not_choose_which_other_tpus_mount_its_folder():
    share = a_share()
    one, other = share.clients
    header: ShareHeader = {
        "role": "client", "mounted": True, "tpu": "pod", "path": share.path,
        "address": "10.0.0.1", "clients": [],
    }  # fmt: skip
    for shares, clients in (
        ([], (one,)),
        ([{**header, "tpu": "another"}], (one,)),
        ([{**header, "path": "/etc"}], (one,)),
        ([{**header, "role": "server"}], (one,)),
        ([header], (one, other)),
    ):
        known = {one: a_host(), other: a_host(shares=shares)}
        assert sharing.without_strangers(share, {"pod"}, known).clients == clients
        assert sharing.without_strangers(share, {"pod", "other"}, known) == share
