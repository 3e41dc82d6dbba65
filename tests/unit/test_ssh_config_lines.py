"""What is written into OpenSSH's configuration, and what of the user's is left as it is."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import raises

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.ssh.openssh_config import (
    HostEntry,
    change_user_config,
    config_path,
    entries_named,
    includes,
    render,
    with_include,
    without_include,
    write_host_keys,
    write_section,
)

TARGET = Path("/data/jupyter tpu/config")

words = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=30)
lines = st.one_of(
    words,
    words.map(lambda text: f"Host {text}"),
    words.map(lambda text: f"  User {text}"),
    words.map(lambda text: f"# {text}"),
    st.just("Match all"),
    st.just("Include ~/.ssh/conf.d/*"),
    st.just('  include = "/data/other"'),
    st.just("include ~/a '/data/jupyter tpu/config' \"b c\" # mine"),
)
configurations = st.builds(
    lambda parts, end, last: end.join(parts).encode() + (end.encode() if last else b""),
    st.lists(lines, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)


@given(st.one_of(configurations, st.binary(max_size=200)))
def test_all_of_the_users_own_bytes_survive_and_come_back(text):
    added = with_include(text, TARGET)
    assert includes(added, TARGET)
    assert with_include(added, TARGET) == added
    if not includes(text, TARGET):
        assert added.endswith(text)
        line = added[: len(added) - len(text)]
        assert line.rstrip(b"\r\n") == b'Include "/data/jupyter tpu/config"'
        assert line.count(b"\n") == 1
        assert without_include(added, TARGET) == text
    assert not includes(without_include(text, TARGET), TARGET)


@pytest.mark.parametrize(
    ("text", "there"),
    [
        (b"Include /data/x/config\n", True),
        (b'  INCLUDE = "/data/x/config"\r\nHost a\n', True),
        (b"Include ~/other /data/x/config # both\n", True),
        (b"#Include /data/x/config\n", False),
        (b"Host a\n  Include /data/x/config\n", False),  # for one host only
        (b"match all\nInclude /data/x/config\n", False),
        (b'Include "/data/x/config\n', False),
        (b"Hosts\nInclude /data/x/config2\n", False),
    ],
)
def test_an_include_counts_only_where_it_holds_for_all_hosts(text, there):
    assert includes(text, Path("/data/x/config")) is there


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (b'  INCLUDE = "/data/x/config"\r\nHost a\n', b"Host a\n"),
        (b"Include /data/x/config # ours\nUser a", b"User a"),
        (
            b"Include ~/a\\ b '/data/x/config' \"c d\" # all\n",
            b'Include ~/a\\ b "c d" # all\n',
        ),
        (b"Include /data/x/config  /data/x/config\n", b""),
        (b"Include /data/x/config2\n", b"Include /data/x/config2\n"),
        (b"Host a\n  Include /data/x/config\n", b"Host a\n  Include /data/x/config\n"),
    ],
)
def test_what_counts_as_included_is_what_is_taken_out(text, left):
    assert without_include(text, Path("/data/x/config")) == left


def test_the_file_is_changed_in_one_step_where_it_is_and_keeps_its_mode(tmp_path):
    real = tmp_path / "dotfiles" / "ssh"
    real.parent.mkdir()
    real.write_bytes(b"Host a\n  User \xff\n")
    real.chmod(0o640)
    link = tmp_path / "config"
    link.symlink_to(real)
    assert change_user_config(link, TARGET, add=True)
    assert not change_user_config(link, TARGET, add=True)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert real.read_bytes().endswith(b"\nHost a\n  User \xff\n")
    assert change_user_config(link, TARGET, add=False)
    assert not change_user_config(link, TARGET, add=False)
    assert real.read_bytes() == b"Host a\n  User \xff\n"
    assert [path.name for path in real.parent.iterdir()] == ["ssh"]


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path):
    path = tmp_path / ".ssh" / "config"
    assert change_user_config(path, TARGET, add=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_folder_in_the_files_place_is_reported_as_one(tmp_path):
    path = tmp_path / "config"
    path.mkdir()
    for add in (True, False):
        with raises(Reason.PERMISSION, "config is a folder, but OpenSSH needs a file"):
            change_user_config(path, TARGET, add=add)
    path.rmdir()
    path.symlink_to(path)
    with pytest.raises(TPUError, match="could not be read"):
        change_user_config(path, TARGET, add=True)


@pytest.mark.skipif(
    os.geteuid() != 0, reason="SKIPPED FOR WANT OF root: only root gives files away"
)
def test_a_file_or_folder_of_another_user_stays_theirs(tmp_path):
    """Their ssh would refuse a file of ours."""
    path = tmp_path / ".ssh" / "config"
    path.parent.mkdir()
    path.write_bytes(b"User a\n")
    os.chown(path, 65534, -1)
    line = 'this line at its top yourself: Include "/data/jupyter tpu/config"'
    with raises(Reason.PERMISSION, r"belongs to another user \(nobody\)") as caught:
        change_user_config(path, TARGET, add=True)
    assert line in caught.value.hint
    assert not change_user_config(path, TARGET, add=False)  # there is nothing to change
    assert (path.read_bytes(), path.stat().st_uid) == (b"User a\n", 65534)
    path.unlink()
    os.chown(path.parent, 54321, -1)
    with pytest.raises(TPUError, match=r"belongs to another user \(ID 54321\)"):
        change_user_config(path, TARGET, add=True)
    assert not path.exists()


def test_entries_of_the_users_own_with_our_names_are_found():
    text = b"Host my-tpu other\nHost=x\n  HostName my-tpu-2\nhost my-tpu-1\n"
    assert entries_named(text, ["my-tpu", "my-tpu-1", "my-tpu-2"]) == ["my-tpu", "my-tpu-1"]


def entry(folder: Path, *names: str) -> HostEntry:
    return HostEntry(
        names=names,
        host_name=f"{names[0]}.abcdefghij",
        user="ann",
        alias=f"{names[0]}-0.zone.project",
        known_hosts=folder / "hosts" / f"{names[0]}-0.zone.project",
        identity_file=folder / "key",
        proxy=("/bin/my python", "-m", "proxy", names[0], "--data=/a%h b'c"),
    )


@pytest.mark.skipif(shutil.which("ssh") is None, reason="SKIPPED FOR WANT OF ssh")
def test_openssh_understands_what_is_written_as_it_is_meant(tmp_path, monkeypatch):
    folder = tmp_path / "with blank and %d"
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "with blank"))
    write_section("google", [entry(folder, "my-tpu", "my-tpu-0"), entry(folder, "my-tpu-1")])
    user = tmp_path / "config"
    user.write_text("Host *\n  User bob\n  ProxyJump gate\n")
    change_user_config(user, config_path(), add=True)

    def options_of(name: str) -> dict[str, str]:
        done = subprocess.run(
            ["ssh", "-F", user, "-G", name], capture_output=True, text=True, check=True
        )
        return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)

    for name in ("my-tpu", "my-tpu-0", "my-tpu-1"):
        options = options_of(name)
        assert options["user"] == "ann"
        assert options["hostname"].endswith(".abcdefghij")
        assert options["identityfile"].replace("%%", "%") == str(folder / "key")
        assert options["stricthostkeychecking"] == "true"
        assert options["proxycommand"].endswith("""'--data=/a%%h b'"'"'c'""")
        assert "proxyjump" not in options
    assert options_of("elsewhere")["user"] == "bob"


def test_entries_of_several_clouds_stand_together_and_go_with_their_emulator(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    state_file = tmp_path / "emulator.json"
    state_file.write_text("{}")
    assert write_section("emulator-1", [entry(tmp_path, "fake")], str(state_file))
    assert write_section("google", [entry(tmp_path, "real")])
    assert not write_section("google", [entry(tmp_path, "real")])
    text = config_path().read_text()
    assert text.index("Host real") < text.index("Host fake")
    assert stat.S_IMODE(config_path().stat().st_mode) == 0o600
    state_file.unlink()
    write_section("google", [])
    assert "Host" not in config_path().read_text()


def test_the_keys_of_a_host_are_replaced_whole(tmp_path):
    path = tmp_path / "hosts" / "my-tpu-0.zone.project"
    write_host_keys(path, ["ssh-ed25519 AAAA", "ssh-rsa BBBB comment"])
    assert path.read_text() == (
        "my-tpu-0.zone.project ssh-ed25519 AAAA\nmy-tpu-0.zone.project ssh-rsa BBBB\n"
    )
    write_host_keys(path, ["ssh-ed25519 CCCC"])
    assert path.read_text().count("\n") == 1


def test_a_name_that_openssh_has_no_way_to_say_is_refused(tmp_path):
    bad = entry(Path('/with"quote'), "a")
    with pytest.raises(TPUError, match="can't use a file"):
        render([bad])
    for name in ("100%", "a*", "[x]"):
        with pytest.raises(TPUError, match="can't use a file"):
            change_user_config(tmp_path / "config", tmp_path / name / "config", add=True)
    assert os.listdir(tmp_path) == []
