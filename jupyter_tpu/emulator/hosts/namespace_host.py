"""A host in Linux namespaces: its life, its users and its processes, seen from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import InvalidInput, Reason, TPUError
from .etc import PATH, USER_GROUPS
from .spec import USER_NAME, HostSpec

_BOOT_SECONDS = 30.0
_END_SECONDS = 10.0
_LINES_KEPT = 200

# Runs inside the host: adds the users named on stdin who are not there yet. $1 is the uid of all of
# them where there is only one.
_ADD_USERS = f"""\
set -eu
only=$1
while read -r name; do
  if grep -q "^$name:" /etc/passwd; then continue; fi
  uid=$only
  if [ -z "$uid" ]; then
    uid=1000
    while grep -q "^[^:]*:[^:]*:$uid:" /etc/passwd /etc/group; do uid=$((uid + 1)); done
  fi
  echo "$name:x:$uid:$uid::/home/$name:/bin/bash" >> /etc/passwd
  echo "$name:*:19000:0:99999:7:::" >> /etc/shadow
  grep -q "^[^:]*:[^:]*:$uid:" /etc/group || echo "$name:x:$uid:" >> /etc/group
  for group in {" ".join(USER_GROUPS)}; do
    sed -i -e "s/^\\($group:[^:]*:[^:]*:..*\\)\\$/\\1,$name/" \\
      -e "s/^\\($group:[^:]*:[^:]*:\\)\\$/\\1$name/" /etc/group
  done
  home=/home/$name
  if [ ! -e "$home/.profile" ]; then
    mkdir -p "$home"
    [ ! -d /etc/skel ] || cp -a /etc/skel/. "$home/"
    chmod 750 "$home"
  fi
  if [ -z "$only" ]; then
    chown "$uid:$uid" "$home"
    find "$home" -mindepth 1 -maxdepth 1 -type f -exec chown "$uid:$uid" {{}} +
  fi
done
"""


class NamespaceHost:
    """One host; made by ``Runtime.start``, which calls `boot` once."""

    def __init__(self, spec: HostSpec, port: int, host_keys: dict[str, str], mode: str) -> None:
        self.port = port
        self.host_keys = host_keys
        self.init_pid = 0
        self._spec = spec
        self._mode = mode
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._users = asyncio.Lock()  # one change of users at a time

    @property
    def ended(self) -> bool:
        """Whether the host is down, by `stop` or on its own."""
        return self._reader is None or self._reader.done()

    def log(self) -> tuple[str, ...]:
        """The last lines that the boot script and sshd wrote."""
        return tuple(self._lines)

    async def boot(self, command: Sequence[str]) -> None:
        """Runs *command* until its sshd listens. Raises TPUError (UNAVAILABLE, TIMEOUT)."""
        listening = asyncio.get_running_loop().create_future()
        self._process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self._spec.folder,
            env={"PATH": PATH, "LC_ALL": "C"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = asyncio.create_task(self._read(self._process, listening))
        try:
            async with asyncio.timeout(_BOOT_SECONDS):
                await listening
        except TimeoutError:
            await self.stop()
            raise TPUError(
                f"The emulated host {self._spec.hostname} did not start in {_BOOT_SECONDS:.0f} s.",
                Reason.TIMEOUT,
                self._last_words(),
            ) from None
        except BaseException:
            await self.stop()
            raise

    async def _read(
        self, process: asyncio.subprocess.Process, listening: asyncio.Future[None]
    ) -> None:
        """Keeps the last lines, notices the pid and the start, and ends with the host."""
        assert process.stdout is not None
        assert process.stdin is not None
        while True:
            try:
                raw = await process.stdout.readline()
            except ValueError:  # a line that is too long to keep; the host goes on
                continue
            if not raw:
                break
            line = raw.decode(errors="replace").rstrip()
            if not self.init_pid and line.startswith("pid "):
                self.init_pid = int(line[4:])
                process.stdin.write(b"go\n")
                process.stdin.close()
                continue
            self._lines.append(line)
            if line.startswith("Server listening on ") and not listening.done():
                listening.set_result(None)
        await process.wait()
        if not listening.done():
            listening.set_exception(
                TPUError(
                    f"The emulated host {self._spec.hostname} did not start.",
                    Reason.UNAVAILABLE,
                    self._last_words(),
                )
            )

    def _last_words(self) -> str:
        return "Its output: " + " | ".join(list(self._lines)[-5:]) if self._lines else ""

    async def wait_ended(self) -> None:
        """Returns when the host has ended, for whatever reason."""
        if self._reader is not None:
            await asyncio.wait([self._reader])

    async def stop(self) -> None:
        """Ends everything in the host's namespace at once; returns when it is gone."""
        if self._reader is None or self._process is None:
            return
        if not self._reader.done():
            with contextlib.suppress(ProcessLookupError):
                if self.init_pid:
                    os.kill(self.init_pid, signal.SIGKILL)
                else:
                    self._process.kill()
            _, late = await asyncio.wait([self._reader], timeout=_END_SECONDS)
            if late:
                raise TPUError(
                    f"The emulated host {self._spec.hostname} can't be stopped.", Reason.TIMEOUT
                )

    async def set_users(self, keys: Mapping[str, Sequence[str]]) -> None:
        """See `RunningHost.set_users`. Raises TPUError (INVALID) for an impossible user name."""
        for user in keys:
            if not USER_NAME.fullmatch(user):
                raise InvalidInput(
                    f"{user!r} can't be a user name on a TPU VM.",
                    "Use a letter first, then letters, digits, dots, dashes and underscores.",
                )
        async with self._users:
            await self._add_users(keys)
            await asyncio.to_thread(write_keys, self._spec.folder / "keys", keys)

    async def _add_users(self, names: Sequence[str] | Mapping[str, Sequence[str]]) -> None:
        assert self._process is not None
        only = "1000" if self._mode == "user" else ""
        process = await asyncio.create_subprocess_exec(
            *nsenter_command(self._process.pid, self._mode),
            *("sh", "-c", _ADD_USERS, "sh", only),
            env={"PATH": PATH, "LC_ALL": "C"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        lines = "".join(f"{name}\n" for name in names).encode()
        try:
            async with asyncio.timeout(_BOOT_SECONDS):
                _, errors = await process.communicate(lines)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise TPUError(
                f"Users could not be added to {self._spec.hostname}: {errors.decode().strip()}",
                Reason.INTERNAL,
            )

    async def processes(self) -> list[dict]:
        """See `RunningHost.processes`."""
        if self.ended:
            return []
        account = await asyncio.to_thread(process_tree, self.init_pid)
        return [{k: v for k, v in entry.items() if k != "outer"} for entry in account]

    async def cut_links(self) -> None:
        """See `RunningHost.cut_links`."""
        for entry in await asyncio.to_thread(process_tree, self.init_pid):
            if entry["outer"] != self.init_pid and is_sshd(entry["name"]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(entry["outer"], signal.SIGKILL)


def nsenter_command(launcher: int, mode: str) -> tuple[str, ...]:
    """The command, before a program's own, that runs it with a host's files as its root.

    *launcher* is the process that made the namespaces: unlike the init it is still in the first of
    two user namespaces, which owns the files.
    """
    user = () if mode == "root" else ("-U", "--preserve-credentials")
    return ("nsenter", "-t", str(launcher), *user, "-m", "-u", "-i", "--")


def is_sshd(name: str) -> bool:
    """Whether a process of this name serves an SSH connection (OpenSSH 9.8 split its program)."""
    return name in ("sshd", "sshd-session", "sshd-auth")


def process_tree(init: int) -> list[dict]:
    """*init* and all its descendants, which is all of a PID namespace, from this machine's /proc.

    Each has ``pid`` (in the innermost namespace), ``outer`` (here), ``name`` and ``cmdline``.
    """
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path("/proc", entry, "stat").read_text()
                parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    members = {init} & set(parents)
    growing = True
    while growing:
        more = {pid for pid, parent in parents.items() if parent in members} - members
        members |= more
        growing = bool(more)
    tree = []
    for pid in sorted(members):
        with contextlib.suppress(OSError):  # it ended meanwhile
            status = dict(
                line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            )
            if status["State"].strip().startswith("Z"):
                continue
            cmdline = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            tree.append(
                {
                    "pid": int(status["NSpid"].split()[-1]),
                    "outer": pid,
                    "name": status["Name"].strip(),
                    "cmdline": cmdline.rstrip("\0").split("\0"),
                }
            )
    return tree


def write_keys(folder: Path, keys: Mapping[str, Sequence[str]]) -> None:
    """Writes each user's public key lines to *folder*, and removes the files of all others."""
    for old in folder.iterdir():
        if old.name not in keys:
            old.unlink()
    for user, lines in keys.items():
        new = folder / f".{user}.new"
        new.write_text("".join(line.strip() + "\n" for line in lines))
        new.chmod(0o644)
        new.replace(folder / user)
