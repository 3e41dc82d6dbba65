"""A real OpenSSH sshd of this user's on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_port
from waiting import until

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])
needs_sshd = pytest.mark.skipif(
    SSHD is None, reason="SKIPPED FOR WANT OF sshd: install openssh-server"
)


def new_key(path: Path) -> str:
    """Makes a key pair; returns the public one, "TYPE BASE64"."""
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", path], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


@contextlib.contextmanager
def running_sshd(folder: Path, authorized: Path, *settings: str) -> Iterator[tuple[int, str]]:
    """Its port and its host key. authorized: the file of the keys that may log in."""
    assert SSHD is not None
    port, key = free_port(), new_key(folder / "host")
    lines = (
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host", "UsePAM no",
        f"AuthorizedKeysFile {authorized}", "StrictModes no", "PidFile none",
        "PermitRootLogin yes", "MaxStartups 100", *settings,
    )  # fmt: skip
    (folder / "config").write_text("\n".join([*lines, ""]))
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=log)

    def listens() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens, why=(folder / "log").read_text)
        yield port, key
    finally:
        server.terminate()
        server.wait(60)


def path_with_ssh(folder: Path, config: Path) -> str:
    """A PATH on which `ssh` reads *config* in place of the user's own; makes *folder* for it."""
    folder.mkdir()
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    (folder / "ssh").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"
