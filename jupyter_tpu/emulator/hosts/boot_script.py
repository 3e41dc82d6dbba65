"""The script that turns a fresh set of namespaces into a host; its last line becomes sshd, PID 1.

It runs as PID 1 of new mount, UTS, IPC and PID namespaces with the host's folder as its working
folder. It is plain text made from plain values, so that it can be read and tried by hand.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from .etc import KEYS, UV_CACHE

# A host shares the machine's kernel and network: its root must not be able to change them.
_DROPPED = (
    "audit_control",
    "mac_admin",
    "mac_override",
    "mknod",
    "net_admin",
    "sys_admin",
    "sys_module",
    "sys_rawio",
    "sys_time",
    "syslog",
    "wake_alarm",
)
_WITHOUT_POWERS = ("setpriv", "--bounding-set", ",".join(f"-{name}" for name in _DROPPED))
_SECOND_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
BOOT_FILE = "boot.sh"  # in the host's folder
_STARTUP = "/run/startup-script"  # in the host
_STARTUP_LOG = "/var/log/startup-script.log"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_MOUNT_FLAGS = {2: "nosuid", 4: "nodev", 8: "noexec", 1024: "noatime", 2048: "nodiratime"}


class BootPlan(Struct, frozen=True, kw_only=True):
    """What the script of one boot must do.

    Parameters
    ----------
    mode: "root", "subuid" or "user".
    hostname: set in the host.
    layers: top-level folders of the machine that the host has an overlay of, ``usr`` …
    skeleton: the folder under those overlays (see skeleton.py); None as root.
    shared: (source, target) bound in read-only; targets are folders or files.
    keys: the folder of the authorized keys of the node's metadata.
    cache: the uv cache that all hosts share, bound in writable; None for none.
    links: (target, link) to create in the host, replacing what is there.
    disk_limit_mb: size of /home in MiB, in memory; None for a folder on the disk.
    devices: empty files made in /dev, which every user may open.
    startup: a script in the host's folder that is run at each boot, in the background; "" for
        none. It is root's, but with a single uid, where there is no root.
    variables: those of the startup script.
    final: the program, and its arguments, that becomes PID 1.
    """

    mode: str
    hostname: str
    keys: Path
    layers: tuple[str, ...] = ()
    skeleton: Path | None = None
    shared: tuple[tuple[Path, Path], ...] = ()
    cache: Path | None = None
    links: tuple[tuple[Path, str], ...] = ()
    disk_limit_mb: int | None = None
    devices: tuple[str, ...] = ()
    startup: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    final: tuple[str, ...] = ()


def unshare_command(mode: str) -> tuple[str, ...]:
    """The command before the script: namespaces whose init dies when this process does."""
    user = {
        "root": (),
        "subuid": ("--user", "--map-auto", "--map-root-user"),
        "user": ("--user", "--map-root-user"),
    }[mode]
    return (
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", *user, "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=KILL"),
    )


def boot_script(plan: BootPlan) -> str:
    """The whole script; `sh` runs it from `BOOT_FILE`."""
    parts = [_BEGIN, _overlays(plan), _KERNEL[plan.mode == "root"], _devices(plan), _folders(plan)]
    parts += [_shared(plan), _startup_file(plan), _PIVOT, _links(plan), _CRONTAB, _cron(plan)]
    parts.append(_last(plan))
    return "\n".join(part for part in parts if part) + "\n"


# The shell prints its outer pid while /proc is still the machine's. Then it waits for permission to
# continue: if the emulator ended before the death signal was set up, there is an end of file here.
_BEGIN = """\
set -eu
read -r pid rest < /proc/self/stat
echo "pid $pid"
read -r go
exec < /dev/null
umask 022
mount --make-rprivate /"""

_KERNEL = {
    True: """\
mount -t proc proc root/proc
mount -o bind,ro root/proc/sys root/proc/sys
[ ! -e root/proc/sysrq-trigger ] || mount -o bind,ro root/proc/sysrq-trigger root/proc/sysrq-trigger
mount -t sysfs -o ro sysfs root/sys""",
    False: """\
mount -t proc proc root/proc
mount --rbind /sys root/sys""",
}

_PIVOT = """\
mkdir root/run/old
pivot_root root root/run/old
cd /
umount -l /run/old
rmdir /run/old"""


# Users' tables of cron, without a cron: of their lines only those of @reboot count, see `_cron`.
_TABLES = "/var/spool/cron/crontabs"
_CRONTAB = f"""\
mkdir -p {_TABLES}
chmod 1777 {_TABLES}
rm -f /usr/bin/crontab
cat > /usr/bin/crontab << 'END'
#!/bin/sh
user=$(id -un)
table={_TABLES}/$user
case ${{1-}} in
  -l) if [ -e "$table" ]; then cat "$table"; else echo "no crontab for $user" >&2; exit 1; fi ;;
  -r) rm "$table" ;;
  -) cat > "$table.new" && mv "$table.new" "$table" ;;
  *) echo "usage: crontab -l | -r | -" >&2; exit 2 ;;
esac
END
chmod 755 /usr/bin/crontab"""


def _cron(plan: BootPlan) -> str:
    """Starts what the users' tables say for @reboot, with the variables of /etc/environment."""
    become = {
        "root": (*_WITHOUT_POWERS, "--reuid", "$user", "--regid", "$user", "--init-groups"),
        "subuid": ("setpriv", "--reuid", "$user", "--regid", "$user", "--init-groups"),
        "user": _SECOND_NAMESPACE,
    }[plan.mode]
    return f"""\
for table in {_TABLES}/*; do
  user=${{table##*/}}
  [ -d "/home/$user" ] || continue
  sed -n -e 's/\\\\%/%/g' -e 's/^@reboot //p' "$table" | while read -r job; do
    setsid env -i HOME="/home/$user" LOGNAME="$user" PATH=/usr/bin:/bin {" ".join(become)} \\
      sh -c "set -a; . /etc/environment; set +a; cd; $job" > /dev/null 2>&1 &
  done
done"""


def _overlays(plan: BootPlan) -> str:
    name = shlex.quote(plan.hostname)
    lines = [
        f"hostname {name} 2> /dev/null || echo {name} > /proc/sys/kernel/hostname",
        "mount --bind root root",
    ]
    if plan.skeleton is not None:  # bound, because an option can't carry every path's letters
        lines.append(f"mount --bind {shlex.quote(str(plan.skeleton))} skeleton")
    for layer in plan.layers:
        lines += _overlay(layer, plan.skeleton is not None)
    if plan.skeleton is not None:
        lines.append("umount skeleton")
    return "\n".join(lines)


def _overlay(layer: str, skeleton: bool) -> list[str]:
    """The lines that mount one. /etc is the skeleton's alone, where there is one.

    An overlay of a folder with mounts of others below it is refused to an unprivileged user: /var
    is then the skeleton's too, and /opt is left out.
    """

    def mount(lower: str) -> str:
        own = f"upperdir=upper/{layer},workdir=work/{layer}"
        extra = ",userxattr" if skeleton else ""
        return f"mount -t overlay overlay -o lowerdir={lower},{own}{extra} root/{layer}"

    if not skeleton:
        return [mount(f"/{layer}")]
    if layer == "etc":
        return [mount("skeleton/etc")]
    both = mount(f"skeleton/{layer}:/{layer}")
    if layer in ("var", "opt"):
        return [f"{both} 2> /dev/null || {mount(f'skeleton/{layer}')}"]
    return [both]


def _devices(plan: BootPlan) -> str:
    group = "" if plan.mode == "user" else ",gid=5"
    chips = "".join(
        f"\nmkdir -p root{os.path.dirname(path)}\n: > root{path}\nchmod 666 root{path}"
        for path in plan.devices
    )
    return f"""\
mount -t tmpfs -o mode=755,size=64k,nr_inodes=256 dev root/dev
for name in {" ".join(_DEVICES)}; do
  : > root/dev/$name
  mount --bind /dev/$name root/dev/$name
done
mkdir root/dev/pts root/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620{group} devpts root/dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev shm root/dev/shm
ln -s pts/ptmx root/dev/ptmx
ln -s /proc/self/fd root/dev/fd
ln -s fd/0 root/dev/stdin
ln -s fd/1 root/dev/stdout
ln -s fd/2 root/dev/stderr
mount -t tmpfs -o mode=755,nosuid,nodev run root/run
mkdir root/run/sshd root/run/lock root/run/user root/run/jupyter-tpu root{KEYS}
chmod 1777 root/run/lock
mount -o {_read_only(plan.keys)} keys root{KEYS}{chips}"""


def _folders(plan: BootPlan) -> str:
    lines = [
        f"mount --bind {own} root{target}"
        for own, target in (("tmp", "/tmp"), ("vartmp", "/var/tmp"), ("private", "/root"))
    ]
    if plan.disk_limit_mb is None:
        lines.append("mount --bind home root/home")
    else:
        lines.append(f"mount -t tmpfs -o mode=755,size={plan.disk_limit_mb}m home root/home")
    if plan.cache is not None:
        lines.append(f"mkdir -p root{UV_CACHE}")
        lines.append(f"mount --bind {shlex.quote(str(plan.cache))} root{UV_CACHE}")
    return "\n".join(lines)


def _shared(plan: BootPlan) -> str:
    lines = []
    for source, target in plan.shared:
        outer, inner = shlex.quote(str(source)), shlex.quote("root" + str(target))
        if source.is_dir():
            lines.append(f"mkdir -p {inner}")
        else:
            lines.append(f"mkdir -p {shlex.quote('root' + str(target.parent))}")
            lines.append(f"[ -e {inner} ] || : > {inner}")
        options = _read_only(source)
        lines.append(f"mount -o {options} {outer} {inner} 2> /dev/null || {{")
        lines.append(f"  mount --rbind {outer} {inner}")  # others are mounted below it
        lines.append(f"  mount -o remount,{options} {inner}")
        lines.append("}")
    return "\n".join(lines)


def _read_only(path: Path) -> str:
    """Options that bind *path* read-only and keep what its file system must not lose.

    In a user namespace a mount's nosuid, nodev, noexec and atime can't be dropped.
    """
    flags = os.statvfs(path).f_flag
    kept = [name for bit, name in _MOUNT_FLAGS.items() if flags & bit]
    return ",".join(["bind", "ro", *kept])


def _links(plan: BootPlan) -> str:
    return "\n".join(
        f"ln -sfn {shlex.quote(str(target))} {shlex.quote(link)}" for target, link in plan.links
    )


def _startup_file(plan: BootPlan) -> str:
    if not plan.startup:
        return ""
    file = f"root{_STARTUP}"
    return f"cp {shlex.quote(plan.startup)} {file}\nchmod 700 {file}"


def _last(plan: BootPlan) -> str:
    before: Sequence[str] = ()
    if plan.mode == "root":
        before = (*_WITHOUT_POWERS, "--")
    elif plan.mode == "user":
        before = (*_SECOND_NAMESPACE, "--")
    clean = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
    startup = ""
    if plan.startup:
        variables = [f"{name}={value}" for name, value in plan.variables]
        script = _join([*clean, "HOME=/root", *variables, *before, "sh", "-c", _STARTUP])
        startup = f"{script} > {_STARTUP_LOG} 2>&1 &\n"
    return startup + "exec " + _join([*clean, *before, *plan.final])


def _join(words: Iterable[str]) -> str:
    return " ".join(map(shlex.quote, words))
