"""What is written for an emulated host before it boots: no process, no network, no mounts."""

import asyncio
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import raises

from jupyter_tpu.emulator.hosts import HostSpec, etc, machine
from jupyter_tpu.emulator.hosts.boot_script import BootPlan, boot_script, unshare_command
from jupyter_tpu.emulator.hosts.host_files import host_variables
from jupyter_tpu.emulator.hosts.namespace_host import NamespaceHost
from jupyter_tpu.errors import Reason


def spec(folder: Path, **more) -> HostSpec:
    return HostSpec(
        **{
            "node_id": "17",
            "worker": 1,
            "hostname": "t1v-n-0123abcd-w-1",
            "address": "127.0.40.2",
            "environment": {"JAX_PLATFORMS": "cpu"},
            "folder": folder,
            "peers": (("t1v-n-0123abcd-w-0", "127.0.40.1"), ("t1v-n-0123abcd-w-1", "127.0.40.2")),
            **more,
        }
    )


def split_as_sshd(line: str) -> list[str]:
    """OpenSSH's argv_split for a line whose words are all in double quotes."""
    words, word, position = [], "", 0
    while position < len(line):
        assert line[position] == '"'
        position += 1
        while line[position] != '"':
            if line[position] == "\\" and line[position + 1] in "\\\"'":
                position += 1
            word += line[position]
            position += 1
        words.append(word)
        word, position = "", position + 2
    return words


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True),
        st.text(st.characters(blacklist_categories=("Cc", "Cs"))),
        min_size=1,
    )
)
def test_every_variable_survives_sshds_own_splitting_of_the_one_setenv_line(variables):
    config = etc.sshd_config("127.0.40.1", 22, variables)
    lines = [line for line in config.split("\n") if line.startswith("SetEnv ")]
    assert len(lines) == 1
    words = split_as_sshd(lines[0].removeprefix("SetEnv "))
    assert dict(word.split("=", 1) for word in words) == variables


@pytest.mark.parametrize("value", ["two\nlines", "bell\x07", "nul\0"])
def test_a_variable_that_sshd_cannot_carry_is_refused_by_name_and_without_its_value(value):
    with raises(Reason.INVALID) as problem:
        etc.set_env("MY_TOKEN", value)
    assert "MY_TOKEN" in problem.value.message
    assert value not in str(problem.value)


@pytest.mark.skipif(etc.sshd_program() is None, reason="OpenSSH's sshd is not installed")
def test_the_installed_sshd_accepts_the_configuration_and_keeps_its_own_session_limit(tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    awkward = {"A": "a \"quoted\" \\ 'word' # $HOME", "EMPTY": "", "LAST": "=x="}
    config = etc.sshd_config("127.0.40.1", 2222, awkward, etc.sshd_version())
    path = tmp_path / "sshd_config"
    path.write_text(config.replace("/etc/ssh/ssh_host_ed25519_key", str(key)))
    if os.geteuid() == 0:  # root's sshd requires this folder, which its service would create
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    output = subprocess.run(
        [etc.sshd_program(), "-T", "-f", path], capture_output=True, text=True, check=True
    ).stdout
    assert "maxsessions 10\n" in output
    assert "passwordauthentication" in output
    for name, value in awkward.items():
        assert f"setenv {name}={value}\n" in output or f"setenv {name}={value}\r\n" in output


def test_the_users_of_a_host_are_the_machines_system_users_without_passwords(tmp_path):
    etc.write_etc(tmp_path, spec(tmp_path / "host"))
    passwd = [line.split(":") for line in (tmp_path / "etc/passwd").read_text().splitlines()]
    names = [entry[0] for entry in passwd]
    assert names[0] == "root"
    assert passwd[0][5] == "/root"
    assert "sshd" in names
    assert "nobody" in names
    assert all(int(entry[2]) < 1000 or int(entry[2]) == 65534 for entry in passwd)
    shadow = [line.split(":") for line in (tmp_path / "etc/shadow").read_text().splitlines()]
    assert [entry[0] for entry in shadow] == names
    assert {entry[1] for entry in shadow} == {"*"}
    groups = [line.split(":") for line in (tmp_path / "etc/group").read_text().splitlines()]
    assert "google-sudoers" in [entry[0] for entry in groups]
    assert len({entry[2] for entry in groups}) == len(groups)
    assert not any(entry[3] for entry in groups)


def test_users_that_were_added_on_the_host_are_kept_at_the_next_boot(tmp_path):
    etc.write_etc(tmp_path, spec(tmp_path / "host"))
    with open(tmp_path / "etc/passwd", "a") as file:
        file.write("ada:x:1000:1000::/home/ada:/bin/bash\n")
    etc.write_etc(tmp_path, spec(tmp_path / "host", hostname="t1v-n-0123abcd-w-7"))
    assert "ada:x:1000" in (tmp_path / "etc/passwd").read_text()
    assert (tmp_path / "etc/hostname").read_text() == "t1v-n-0123abcd-w-7\n"


def test_a_host_knows_all_hosts_of_its_pod_by_name(tmp_path):
    lines = etc.hosts_file(spec(tmp_path)).splitlines()
    assert "127.0.0.1 localhost" in lines
    assert "127.0.40.1 t1v-n-0123abcd-w-0" in lines
    assert lines.count("127.0.40.2 t1v-n-0123abcd-w-1") == 1


@pytest.mark.parametrize("single_uid", [False, True])
def test_sudo_is_a_script_that_sh_can_read(tmp_path, single_uid):
    etc.write_etc(tmp_path, spec(tmp_path / "host"), single_uid=single_uid)
    sudo = tmp_path / "usr/bin/sudo"
    assert os.access(sudo, os.X_OK)
    subprocess.run(["sh", "-n", sudo], check=True)
    refused = subprocess.run(["sh", sudo], capture_output=True, text=True)
    assert refused.returncode == 1
    assert "usage: sudo" in refused.stderr


def test_a_host_name_or_folder_that_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(ValueError, match="host name"):
        spec(tmp_path, hostname="x; reboot")
    with pytest.raises(ValueError, match="absolute"):
        spec(Path("here"))


def test_the_boot_script_quotes_every_path(tmp_path):
    odd = tmp_path / "it's $HOME; and more"
    odd.mkdir()
    plan = BootPlan(
        mode="root",
        hostname="t1v-n-0123abcd-w-0",
        keys=tmp_path,
        layers=("usr",),
        shared=((odd, Path("/root") / odd.name),),
        cache=odd,
        links=((odd, "/usr/local/bin/python3.12"),),
        final=("/usr/sbin/sshd", "-D"),
    )
    script = boot_script(plan)
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)
    words = [shlex.split(line) for line in script.splitlines() if "and more" in line]
    assert any(str(odd) in line for line in words)
    assert not any("more" in line for line in words)  # no path fell apart


@pytest.mark.parametrize("mode", ["root", "subuid", "user"])
def test_the_last_thing_a_boot_does_is_to_become_sshd(tmp_path, mode):
    script = boot_script(
        BootPlan(mode=mode, hostname="h", keys=tmp_path, final=("/usr/sbin/sshd", "-D", "-e"))
    )
    last = script.strip().splitlines()[-1]
    assert last.startswith("exec ")
    assert last.endswith("/usr/sbin/sshd -D -e")
    assert "--kill-child=KILL" in unshare_command(mode)


def test_a_small_disk_gets_copies_of_packages_so_that_it_can_be_full(tmp_path):
    assert host_variables(spec(tmp_path))["UV_LINK_MODE"] == "symlink"
    assert host_variables(spec(tmp_path, disk_limit_mb=10))["UV_LINK_MODE"] == "copy"


def test_files_that_package_clients_are_told_of_are_found_in_every_form(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    wheels, more = tmp_path / "wheels", tmp_path / "more wheels"
    certificate = tmp_path / "ca.pem"
    wheels.mkdir()
    more.mkdir()
    certificate.write_text("-----")
    paths = machine.named_paths(
        {
            "PIP_FIND_LINKS": f"{wheels} https://wheels.example/simple",
            "UV_FIND_LINKS": more.as_uri(),
            "SSL_CERT_FILE": str(certificate),
            "PIP_CERT": str(tmp_path / "missing"),
            "PIP_LOG": str(tmp_path),  # it holds the home: never to be shown
            "MY_NOTES": str(tmp_path / "home"),
            "HTTPS_PROXY": "http://proxy.example:3128",
        }
    )
    assert paths == tuple(sorted((wheels, more, certificate)))


def test_the_users_own_home_is_hidden_wherever_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert machine.is_hidden(tmp_path / "secret", machine.hidden_folders())
    assert machine.is_hidden(Path("/root/.ssh"), ())
    assert machine.is_hidden(Path("/home/ada"), ())
    assert machine.is_hidden(Path("/tmp"), ())
    assert not machine.is_hidden(Path("/usr/lib"), machine.hidden_folders())


def test_pythons_are_found_where_pyenv_and_uv_put_them_newest_patch_first(tmp_path, monkeypatch):
    for prefix in ("pyenv/versions/3.12.1", "pyenv/versions/3.12.10", "uv/cpython-3.13.2-linux"):
        name = "python3.13" if "3.13" in prefix else "python3.12"
        program = tmp_path / prefix / "bin" / name
        program.parent.mkdir(parents=True)
        program.write_text("")
        program.chmod(0o755)
    closed = tmp_path / "pyenv/versions/3.9.1/bin/python3.9"
    closed.parent.mkdir(parents=True)
    closed.write_text("")
    closed.chmod(0o700)  # a host's users could not run it
    for folder in [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    monkeypatch.setattr(machine.sys, "base_prefix", "/usr")
    machine.pythons.cache_clear()
    try:
        pythons = machine.pythons()
    finally:
        machine.pythons.cache_clear()
    versions = tmp_path / "pyenv/versions"
    assert pythons.commands["python3.12"] == versions / "3.12.10/bin/python3.12"
    assert pythons.commands["python3.13"].is_relative_to(tmp_path / "uv")
    assert "python3.9" not in pythons.commands
    assert versions in pythons.folders


def test_user_names_become_files_only_if_they_are_user_names():
    from jupyter_tpu.emulator.hosts.spec import USER_NAME

    for name in ("ada", "ada.lovelace", "Ada-1", "_x", "sa_1234567890"):
        assert USER_NAME.fullmatch(name)
    for name in ("", "../ada", "a b", "-x", "ada\n", "1ada", "a" * 33, "ada:x"):
        assert not USER_NAME.fullmatch(name)


@pytest.mark.skipif(shutil.which("sh") is None, reason="no sh")
def test_nothing_of_the_package_is_imported_that_costs_time():
    done = subprocess.run(
        [
            os.sys.executable,
            "-c",
            "import sys, jupyter_tpu.emulator.hosts; print('asyncssh' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


async def test_a_host_does_not_end_by_a_line_that_is_too_long_to_keep(tmp_path):
    """It would be booted a second time, next to itself."""
    spec: Any = SimpleNamespace(hostname="h", folder=tmp_path)
    host = NamespaceHost(spec, 22, {}, "root")
    output = asyncio.StreamReader(limit=1000)
    process: Any = SimpleNamespace(stdout=output, stdin=None, wait=lambda: asyncio.sleep(0))
    process.stdin = process
    listening = asyncio.get_running_loop().create_future()
    reading = asyncio.create_task(host._read(process, listening))
    output.feed_data(b"x" * 5000 + b"\nServer listening on 127.0.0.2 port 22.\n")
    await asyncio.wait_for(listening, 60)
    assert not reading.done()
    output.feed_eof()
    await reading
    assert host.log()[-1] == "Server listening on 127.0.0.2 port 22."
