"""A folder that hosts share over NFS: what is there, and the steps that change it.

The steps come from the caller (`files.sharing`), which shows them before. Files that are ours
begin with a line that has ``jupyter-tpu`` and what the folder is, as JSON.
"""

import glob
import json
import os
import pwd
import shutil

from ..calls.paths import HOME
from ..calls.processes import run, serve
from ..calls.protocol import HostError, emit

MARK = "# jupyter-tpu: "
EXPORTS = "/etc/exports.d/jupyter-tpu-*.exports"
UNITS = "/etc/systemd/system/*.mount"
#: Seconds: for packages, for another step, and for a shared folder to answer.
PACKAGES_SECONDS, STEP_SECONDS, ANSWER_SECONDS = 900, 120, 30


def examine_sharing(folder=""):
    """What sharing *folder* needs to know of this host, and what it shares already."""
    user = pwd.getpwuid(os.getuid())
    path = os.path.normpath(os.path.join(HOME, folder))
    kinds = _file_systems()
    return {
        "user": user.pw_name,
        "uid": user.pw_uid,
        "gid": user.pw_gid,
        "home": HOME,
        "path": path,
        "root": os.geteuid() == 0 or run(_as_root(["true"]), timeout=STEP_SECONDS)[0] == 0,
        "systemd": os.path.isdir("/run/systemd/system"),
        "server_kernel": "nfsd" in kinds or _loadable("nfsd"),
        "client_kernel": "nfs4" in kinds or _loadable("nfsv4"),
        "server_tools": _found("exportfs"),
        "client_tools": _found("mount.nfs4"),
        "apt": _found("apt-get"),
        "state": _state_of(path),
        "mounted": _mounts().get(path, ""),
        "shares": shares(),
    }


def shares():
    """[{"role": "server" or "client", "mounted": …, and what its first line says}]"""
    records, mounts = [], _mounts()
    for role, pattern in (("server", EXPORTS), ("client", UNITS)):
        for path in sorted(glob.glob(pattern)):
            header = _read_header(path)
            if header is None:
                continue
            source = mounts.get(header.get("path", ""), "")
            mounted = role == "server" or (source.startswith("nfs") and _answers(header["path"]))
            records.append(dict(header, role=role, file=path, mounted=mounted))
    return records


def change_sharing(steps):
    """Does *steps* in their order, up to the first that fails."""
    for step in steps:
        _STEPS[step["do"]](**{name: step[name] for name in step if name != "do"})
    return {}


def _packages(names):
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"]
    _root([*apt, "update", "-qq"], PACKAGES_SECONDS)
    _root([*apt, "install", "-y", "-qq", "--no-install-recommends", *names], PACKAGES_SECONDS)


def _folder(path):
    """A folder that is new is the user's, and no one else's."""
    if os.path.isdir(path):
        return
    emit(log="mkdir %s" % path)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path, 0o700)
    except PermissionError:
        owner = "%d:%d" % (os.getuid(), os.getgid())
        _root(["mkdir", "-p", "-m", "755", os.path.dirname(path)])
        _root(["mkdir", "-m", "700", path])
        _root(["chown", owner, path])


def _write(path, text):
    script = 'mkdir -p "$(dirname "$1")" && cat >"$1.new" && chmod 644 "$1.new" && mv "$1.new" "$1"'
    _root(["sh", "-c", script, "write", path], input=text, shown="write %s" % path)


def _delete(path):
    _root(["rm", "-f", path])


def _run(argv, optional=False):
    """optional: it may fail, since it was done before."""
    try:
        _root(argv)
    except HostError:
        if not optional:
            raise


def _unmount(path):
    """Ends a mount, unless a program uses it."""
    if not _mounts().get(path, "").startswith("nfs"):
        return
    status, lines = run(_as_root(["umount", path]), timeout=STEP_SECONDS)
    if status:
        raise HostError(
            "CONFLICT",
            "%s is in use: %s." % (path, (lines or ["umount failed"])[-1].rstrip(".")),
            "End the programs that use it (`sudo fuser -vm %s` shows them), and repeat." % path,
        )


def _remove_folder(path):
    """Only an empty one: what is in it is the user's."""
    if os.path.isdir(path) and not os.listdir(path):
        try:
            os.rmdir(path)
        except PermissionError:
            _root(["rmdir", path])


def _check(path):
    """Whether the folder is mounted, and answers."""
    if not _answers(path):
        raise HostError(
            "UNREACHABLE",
            "%s is not mounted." % path,
            "Allow TCP port 2049 between the hosts in the firewall of their network, and repeat.",
        )


_STEPS: dict = {
    "packages": _packages,
    "folder": _folder,
    "write": _write,
    "delete": _delete,
    "run": _run,
    "unmount": _unmount,
    "remove_folder": _remove_folder,
    "check": _check,
}


def _root(argv, limit=STEP_SECONDS, input="", shown=""):
    emit(log=shown or " ".join(argv))
    status, lines = run(_as_root(argv), input=input, timeout=limit, on_line=lambda x: emit(log=x))
    if status:
        last = next((line for line in reversed(lines) if line.strip()), "status %d" % status)
        raise HostError(
            "ENVIRONMENT",
            "%s failed: %s." % (shown or " ".join(argv[:4]), last.strip().rstrip(".")),
            "Try again. Finished steps are skipped.",
        )


def _as_root(argv):
    return argv if os.geteuid() == 0 else ["sudo", "-n", *argv]


def _found(program):
    return bool(shutil.which(program, path="/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"))


def _file_systems():
    with open("/proc/filesystems") as file:
        return {line.split()[-1] for line in file if line.split()}


def _loadable(module):
    return (
        _found("modprobe")
        and run(_as_root(["modprobe", "-n", "-q", module]), timeout=STEP_SECONDS)[0] == 0
    )


def _mounts():
    """Where what kind of file system is mounted."""
    mounts = {}
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields, _, kind = line.partition(b" - ")
            place = fields.split()[4].decode("unicode_escape").encode("latin-1")
            mounts[os.fsdecode(place)] = kind.split()[0].decode()
    return mounts


def _answers(path):
    """Looking at it mounts it. A server that is silent would keep the look for ever."""
    status, lines = run(["stat", "-f", "-c", "%T", "--", path], timeout=ANSWER_SECONDS)
    return status == 0 and lines == ["nfs"]


def _state_of(path):
    """ "missing", "folder", "empty" or "other"; "denied" if the user may not look."""
    try:
        return "folder" if os.listdir(path) else "empty"
    except FileNotFoundError:
        return "missing"
    except NotADirectoryError:
        return "other"
    except PermissionError:
        return "denied"


def _read_header(path):
    try:
        with open(path) as file:
            first = file.readline()
        return json.loads(first[len(MARK) :]) if first.startswith(MARK) else None
    except (OSError, ValueError):
        return None


CALLS: dict = {
    "examine_sharing": examine_sharing,
    "change_sharing": change_sharing,
}


def main():
    serve(CALLS)
