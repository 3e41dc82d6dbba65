"""A host's own files in /etc: users, names, SSH, sudo.

They are written into the host's own layer before it boots. Users and groups extend the machine's
system entries: inventing short lists breaks dpkg and file owners.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ...errors import InvalidInput
from ...local_files import write_atomically
from .spec import HostSpec

SUDOERS = "google-sudoers"
# What Google's guest agent puts a new user into, where the group exists.
USER_GROUPS = ("adm", "dip", "docker", "lxd", "plugdev", "video", SUDOERS)
KEYS = "/run/jupyter-tpu/keys"  # where the authorized keys of the node's metadata are bound in
UV_CACHE = "/var/cache/uv"
#: What every Python of a host loads where JAX looks for plugins, and its source.
PLUGINS = "/usr/local/lib/jupyter-tpu"
ON_HOST = Path(__file__).with_name("on_host")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of the emulator's tools
_SYSTEM_IDS = range(1000)
_NOBODY = 65534

# `su` is on every Linux, setuid, and its PAM rules can trust a group: what sudo needs, no more.
_SUDO_OPTIONS = """\
#!/bin/sh
# sudo of an emulated TPU host: members of google-sudoers become another user without a password.
user=root login= shell=
while [ $# -gt 0 ]; do
  case $1 in
    -u|--user) user=$2; shift 2 ;;
    -u*) user=${1#-u}; shift ;;
    --user=*) user=${1#--user=}; shift ;;
    -i|--login) login=1; shift ;;
    -s|--shell) shell=1; shift ;;
    -g|--group|-p|--prompt|-C|-r|-t|-D|-h|-T) shift 2 ;;
    -v|-k|-K|--validate|--reset-timestamp) exit 0 ;;
    --) shift; break ;;
    -[EHnbSAP]*|--preserve-env*|--set-home|--non-interactive|--stdin|--askpass) shift ;;
    -*) echo "sudo: this emulated host does not know the option $1" >&2; exit 1 ;;
    *) break ;;
  esac
done
while [ $# -gt 0 ]; do
  case $1 in [A-Za-z_]*=*) export "$1"; shift ;; *) break ;; esac
done
if [ $# -eq 0 ] && [ -z "$login$shell" ]; then
  echo "usage: sudo [-u user] [-i] command" >&2
  exit 1
fi
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
SUDO_USER=$(id -un) SUDO_UID=$(id -u) SUDO_GID=$(id -g)
export PATH SUDO_USER SUDO_UID SUDO_GID
if [ $# -eq 0 ] && [ -z "$login" ]; then set -- /bin/bash; fi
"""
_SUDO_BY_SU = """\
if [ $# -eq 0 ]; then set -- /bin/bash -l; fi
if [ -n "$login" ]; then set -- sh -c 'cd; exec "$@"' sh "$@"; fi
export SUDO_PATH="$PATH"
become='PATH=$SUDO_PATH; export PATH; exec "$@"'
if [ "$user" != root ]; then  # by way of root, who may ignore that the user has no shell
  set -- /usr/bin/su -s /bin/sh -c "$become" -- "$user" sh "$@"
fi
exec /usr/bin/su -s /bin/sh -c "$become" -- root sh "$@"
"""
_SUDO_BY_NAMESPACE = """\
if [ $# -eq 0 ]; then set -- /bin/bash -l; fi
if [ "$user" != root ]; then exec "$@"; fi
export HOME=/root USER=root LOGNAME=root
if [ -n "$login" ]; then cd; fi
exec unshare --user --map-root-user -- "$@"
"""
_PAM_SU = f"""\
auth sufficient pam_rootok.so
auth sufficient pam_wheel.so trust use_uid group={SUDOERS}
auth required pam_deny.so
account sufficient pam_permit.so
session optional pam_permit.so
"""


def sudo_script(single_uid: bool) -> str:
    """`sudo` for a host; with a single uid, root is one in another user namespace."""
    return _SUDO_OPTIONS + (_SUDO_BY_NAMESPACE if single_uid else _SUDO_BY_SU)


def write_etc(root: Path, spec: HostSpec, *, single_uid: bool = False) -> None:
    """Writes a host's own files below *root*, its layer or its root folder.

    Users, groups and SSH host keys that are there already are kept: the host was up before.
    """
    etc = root / "etc"
    etc.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not (etc / "passwd").exists() or not (etc / "group").exists() or single_uid:
        _write_users(etc, single_uid)
    _put(etc / "hostname", spec.hostname + "\n")
    _put(etc / "machine-id", hashlib.md5(f"{spec.node_id}-{spec.worker}".encode()).hexdigest())
    _put(etc / "hosts", hosts_file(spec))
    _put(etc / "environment", "".join(f'{k}="{v}"\n' for k, v in spec.environment.items()))
    if os.path.exists("/etc/resolv.conf"):  # often a link into /run, and each host has its own /run
        _put(etc / "resolv.conf", Path("/etc/resolv.conf").read_text())
    (etc / "pam.d").mkdir(exist_ok=True)
    _put(etc / "pam.d" / "su", _PAM_SU)
    for source in ON_HOST.glob("**/*.py"):
        plugin = root / PLUGINS.removeprefix("/") / source.relative_to(ON_HOST)
        plugin.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        _put(plugin, source.read_text())
    sudo = root / "usr/bin/sudo"
    sudo.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    _put(sudo, sudo_script(single_uid), 0o755)


def plugin_path(folder: str) -> dict[str, str]:
    """The variables by which JAX finds the plugins in *folder*, and Python its sitecustomize. The
    agent clears a Python's path for what it starts, and takes this one.
    """
    return {"PYTHONPATH": folder, "JUPYTER_TPU_EMULATED_PLUGINS": folder}


def hosts_file(spec: HostSpec) -> str:
    """/etc/hosts: this host under its address, and every peer of the pod."""
    names = dict(spec.peers) | {spec.hostname: spec.address}
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    return "\n".join([*lines, *(f"{address} {name}" for name, address in names.items())]) + "\n"


def _write_users(etc: Path, single_uid: bool) -> None:
    users = {
        user.pw_name: user
        for user in pwd.getpwall()
        if user.pw_uid in _SYSTEM_IDS or user.pw_uid == _NOBODY
    }
    passwd = ["root:x:0:0:root:/root:/bin/bash"]
    passwd += [
        f"{user.pw_name}:x:{user.pw_uid}:{user.pw_gid}:{user.pw_gecos}:{user.pw_dir}:{user.pw_shell}"
        for user in users.values()
        if user.pw_uid
    ]
    if "sshd" not in users:  # sshd separates its privileges with this user
        free = next(
            uid for uid in range(999, 100, -1) if uid not in {u.pw_uid for u in users.values()}
        )
        passwd.append(f"sshd:x:{free}:{_NOBODY}::/run/sshd:/usr/sbin/nologin")
        names = [*users, "sshd"]
    else:
        names = list(users)
    groups = {
        group.gr_name: group.gr_gid
        for group in grp.getgrall()
        if group.gr_gid in _SYSTEM_IDS or group.gr_gid == _NOBODY
    }
    if single_uid:  # sshd would give terminals to this group, and can't
        groups.pop("tty", None)
    if SUDOERS not in groups:
        groups[SUDOERS] = next(gid for gid in range(999, 100, -1) if gid not in groups.values())
    _put(etc / "passwd", "\n".join(passwd) + "\n")
    _put(etc / "shadow", "".join(f"{name}:*:19000:0:99999:7:::\n" for name in names), 0o640)
    _put(etc / "group", "".join(f"{name}:x:{gid}:\n" for name, gid in groups.items()))
    _put(etc / "gshadow", "".join(f"{name}:*::\n" for name in groups), 0o640)
    _put(etc / "subuid", "")
    _put(etc / "subgid", "")


def write_ssh(root: Path, spec: HostSpec, port: int, *, variables: Mapping[str, str]) -> None:
    """Writes sshd's configuration and, once, the host key below *root*.

    Raises TPUError (INVALID) for variables that sshd can't carry.
    """
    folder = root / "etc/ssh"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    key = folder / "ssh_host_ed25519_key"
    if not key.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", spec.hostname, "-f", key],
            check=True,
            capture_output=True,
            timeout=20,
        )
    config = sshd_config(spec.address, port, variables, sshd_version(), spec.internal)
    _put(folder / "sshd_config", config)


def host_keys(root: Path) -> dict[str, str]:
    """The public host keys below *root*: kind → base64 value, as in guest attributes."""
    words = (root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
    return {words[0]: words[1]}


def sshd_program() -> str | None:
    """The absolute path of OpenSSH's server (it insists on one), or None."""
    return shutil.which("sshd", path=PATH)


@cache
def sshd_version() -> tuple[int, int]:
    """OpenSSH's version, (9, 2) for example; (0, 0) if it does not say."""
    program = sshd_program()
    if program is None:
        return (0, 0)
    output = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=20)
    match = re.search(r"OpenSSH_(\d+)\.(\d+)", output.stdout + output.stderr)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def sshd_config(
    address: str,
    port: int,
    variables: Mapping[str, str],
    version: tuple[int, int] = (0, 0),
    internal: str = "",
) -> str:
    """sshd_config of a host. Limits a client should meet, MaxSessions above all, stay default."""
    lines = [
        f"ListenAddress {address}",
        *([f"ListenAddress {internal}"] if internal not in ("", address) else []),
        f"Port {port}",
        "HostKey /etc/ssh/ssh_host_ed25519_key",
        f"AuthorizedKeysFile .ssh/authorized_keys {KEYS}/%u",
        "AuthenticationMethods publickey",
        "UsePAM no",
        "StrictModes no",
        "PidFile none",
        "UseDNS no",
        "PrintMotd no",
        "PrintLastLog no",
        "MaxStartups 100:30:200",
        "Subsystem sftp internal-sftp",
    ]
    if version >= (9, 8):  # every client comes from the same address here
        lines.append("PerSourcePenalties no")
    if variables:  # one line: of several, sshd takes the first only
        lines.append("SetEnv " + " ".join(set_env(k, v) for k, v in variables.items()))
    return "\n".join(lines) + "\n"


def set_env(name: str, value: str) -> str:
    """One quoted NAME=VALUE for sshd's SetEnv.

    Raises TPUError (INVALID) for a name no shell could use, or a value with control characters.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InvalidInput(
            f"{name!r} can't be a variable on a host.",
            "Use letters, digits and underscores.",
        )
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise InvalidInput(
            f"The variable {name} has a line break or a control character in it.",
            "Unset it before the emulator is started.",
        )
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}={escaped}"'


def _put(path: Path, text: str, mode: int = 0o644) -> None:
    write_atomically(path, text, mode=mode)
