"""The processes of this host that show that somebody works there, from /proc: terminals, programs
that go on without one, tasks of Ray, and servers that somebody is connected to.

Pure but for reading *proc*. What jupyter-tpu started itself is left out: its keepers say what that
does.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from typing import Collection, Dict, Iterator, List, NamedTuple, Set, Tuple

#: The major numbers of pseudo-terminals. Source: Linux, Documentation/admin-guide/devices.txt.
_PTS = range(136, 144)
_SHELLS = ("bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh")
#: Programs whose terminals go on when nobody looks at them; by the names that /proc has of them.
_DETACHABLE = ("tmux", "screen")
#: Ray's own processes, and its workers that wait.
_RAY = re.compile(
    rb"ray::|\S*/(?:raylet|gcs_server)\b|.*\bray/(?:_private|dashboard|util)/|.*\bray\0start\b",
    re.DOTALL,
)
_RAY_TASK = re.compile(
    rb"ray::(?!IDLE|_|Serve|ProxyActor|HTTPProxyActor|JobSupervisor|DashboardAgent)"
)
#: What sshd is called, whose connections come from other computers.
_SSHD = ("sshd", "sshd-session")
#: The name of the socket of a run's keeper; see `protocol.paths.run_socket`.
_RUN = re.compile(r"run-\w+\.sock")
LISTEN, ESTABLISHED = "0A", "01"


class Process(NamedTuple):
    """name: its first 15 characters. command: as it was started, or how it calls itself."""

    pid: int
    parent: int
    session: int
    has_terminal: bool
    name: str
    command: bytes
    user: str
    ignores_hangup: bool


Table = Dict[int, Process]


def read_processes(proc: str = "/proc") -> Table:
    """All that can be seen, without the system's own threads."""
    table: Table = {}
    for name in filter(str.isdigit, os.listdir(proc)):
        pid = int(name)
        before, _, after = content(proc, name, "stat").rpartition(b")")
        fields, command = after.split(), content(proc, name, "cmdline")
        if len(fields) > 4 and command:
            table[pid] = Process(
                pid,
                int(fields[1]),
                int(fields[3]),
                int(fields[4]) >> 8 in _PTS,
                before.partition(b"(")[2].decode("utf-8", "replace"),
                command,
                _user(os.path.join(proc, name)),
                _ignores_hangup(content(proc, name, "status"))
                and b"/system.slice/" not in content(proc, name, "cgroup"),
            )
    return table


def terminals(table: Table, ours: Collection[int] = ()) -> List[str]:
    """Open terminals, however they were opened: by ssh, mosh, VS Code. One of tmux or screen, which
    goes on when nobody looks at it, counts while a program runs in it.
    """
    reasons = set()
    for leader in table.values():
        if not leader.has_terminal or leader.session != leader.pid or leader.pid in ours:
            continue
        holder = table.get(leader.parent)
        if holder is None or not holder.name.startswith(_DETACHABLE):
            reasons.add("a terminal of %s" % leader.user)
        elif not all(_is_prompt(one) for one in table.values() if one.session == leader.pid):
            reasons.add("a program in %s of %s" % (holder.name.partition(":")[0], leader.user))
    return sorted(reasons)


def background_programs(
    table: Table, ours: Collection[int] = (), listening: Collection[int] = ()
) -> List[str]:
    """Programs that were started by nohup, as long as they run; not servers, and what belongs to
    them, which wait for somebody.
    """
    init = table.get(1)
    if init is not None and init.ignores_hangup:
        return []  # as everything here does
    users = set()
    for process in table.values():
        line = {one.pid for one in _ancestors(table, process)} | {process.pid}
        if (
            process.ignores_hangup
            and not process.has_terminal
            and not _RAY.match(process.command)
            and not line.intersection(ours)
            and not line.intersection(listening)
        ):
            users.add(process.user)
    return ["a program of %s (nohup)" % user for user in sorted(users)]


def ray_tasks(table: Table) -> List[str]:
    """Whether Ray runs a task, or has an actor, on this host; not those of Ray itself."""
    busy = any(_RAY_TASK.match(process.command) for process in table.values())
    return ["a task or actor of Ray"] if busy else []


def commands(table: Table, sockets: Dict[str, int]) -> List[str]:
    """Whether a command of `jupyter tpu run` runs: its keeper, known by its socket, has a child. It
    is not asked: a keeper that nobody is connected to ends its command.
    """
    keepers = {pid for path, pid in sockets.items() if _RUN.fullmatch(os.path.basename(path))}
    running = any(process.parent in keepers for process in table.values())
    return ["a command"] if running else []


class Servers(NamedTuple):
    """listening: the processes that wait for connections. ports: those of TCP on which somebody
    from outside of this host's own programs is connected. sockets: who listens at which path.
    """

    listening: Set[int]
    ports: Set[int]
    sockets: Dict[str, int]


def servers(table: Table, ours: Collection[int] = (), proc: str = "/proc") -> Servers:
    """The servers of this user, whose sockets can be read.

    A connection that comes through SSH ends at sshd, so it comes from outside. One between two
    programs of this user does not, such as that of a worker of Ray.
    """
    owners: Dict[str, int] = {}
    for process in table.values():
        for inode in socket_inodes(proc, process.pid):
            owners[inode] = process.pid
    sockets = {
        path: owners[inode] for path, inode in _unix_listeners(proc).items() if inode in owners
    }
    listening = set(sockets.values())
    ports: Set[int] = set()
    connections: List[Tuple[str, str, int]] = []
    ends: Dict[Tuple[str, str], int] = {}
    for local, remote, state, inode in tcp_sockets(proc):
        owner = owners.get(inode)
        if owner is None:
            continue
        if state == LISTEN:
            listening.add(owner)
            if owner not in ours and not _is_own_server(table[owner]):
                ports.add(port_of(local))
        elif state == ESTABLISHED:
            ends[local, remote] = owner
            connections.append((local, remote, owner))
    used = set()
    for local, remote, owner in connections:
        other = ends.get((remote, local))
        inside = other is not None and table[other].name not in _SSHD
        if port_of(local) in ports and owner not in ours and not inside:
            used.add(port_of(local))
    return Servers(listening, used, sockets)


def _is_own_server(process: Process) -> bool:
    """Whether its connections are no person's: SSH, which terminals are for, and Ray's own."""
    return process.name in _SSHD or bool(_RAY.match(process.command))


def _is_prompt(process: Process) -> bool:
    """Whether it is a shell that waits for a command, not one that runs a script."""
    arguments = process.command.rstrip(b"\0").split(b"\0")[1:]
    return process.name in _SHELLS and all(word.startswith(b"-") for word in arguments)


def _ancestors(table: Table, process: Process) -> Iterator[Process]:
    seen: Set[int] = set()
    while process.parent in table and process.parent not in seen:
        process = table[process.parent]
        seen.add(process.pid)
        yield process


def _user(folder: str) -> str:
    try:
        uid = os.stat(folder).st_uid
        return pwd.getpwuid(uid).pw_name
    except OSError:
        return "?"  # it has ended
    except KeyError:
        return str(uid)


def _ignores_hangup(status: bytes) -> bool:
    ignored = re.search(rb"^SigIgn:\s*([0-9a-f]+)", status, re.MULTILINE)
    return ignored is not None and bool(int(ignored.group(1), 16) & 1)


def socket_inodes(proc: str, pid: int) -> Iterator[str]:
    """The inodes of the sockets that a process has open."""
    folder = os.path.join(proc, str(pid), "fd")
    try:
        names = os.listdir(folder)
    except OSError:
        return  # another user's, or it has ended
    for name in names:
        with contextlib.suppress(OSError):
            target = os.readlink(os.path.join(folder, name))
            if target.startswith("socket:["):
                yield target[8:-1]


def tcp_sockets(proc: str = "/proc") -> Iterator[Tuple[str, str, str, str]]:
    """Local and remote address, as the system writes them, state and inode of each socket."""
    for name in ("tcp", "tcp6"):
        for line in _lines(proc, "net", name):
            fields = line.split()
            if len(fields) > 9:
                yield _plain(fields[1]), _plain(fields[2]), fields[3], fields[9]


def _plain(address: str) -> str:
    """One of IPv4, although a socket of IPv6 has it."""
    return address[24:] if address.startswith("0000000000000000FFFF0000") else address


def port_of(address: str) -> int:
    """The port of an address of `tcp_sockets`."""
    return int(address.rpartition(":")[2], 16)


def _unix_listeners(proc: str) -> Dict[str, str]:
    """Inodes by their paths, of those with __SO_ACCEPTCON. Source: Linux, net/unix/af_unix.c."""
    inodes = {}
    for line in _lines(proc, "net", "unix"):
        fields = line.split(None, 7)
        if len(fields) > 6 and int(fields[3], 16) & 0x10000:
            inodes[fields[7] if len(fields) > 7 else fields[6]] = fields[6]
    return inodes


def _lines(*path: str) -> List[str]:
    try:
        with open(os.path.join(*path), encoding="ascii", errors="replace") as file:
            return file.read(4 << 20).splitlines()[1:]
    except OSError:
        return []


def content(*path: str) -> bytes:
    """The beginning of a file of /proc; nothing for one that is gone."""
    try:
        with open(os.path.join(*path), "rb") as file:
            return file.read(4096)
    except OSError:
        return b""  # it has ended
