"""Folders that hosts share over NFS: the steps on each host, and the files that they write.

Host 0 of a TPU exports the folder to the internal addresses of hosts, and to nothing else. Whoever
uses it there acts as the user that exported it, root too (``all_squash``), so the folder needs no
rights for others. A host mounts it on first use (systemd's automount), also after a restart.

All here is pure: what a person is shown is what `on_host.files.shares` does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta, Struct

from ..errors import InvalidInput
from ..links.host_calls import HostProgram, Nothing
from ..on_host.files.shares import MARK
from ..ssh.host_values import Address, Count, Line, Word
from ..wording import phrase

EXPORTS = "/etc/exports.d/jupyter-tpu-{}.exports"
UNITS = "/etc/systemd/system/"
#: ``hard``: while host 0 is away, programs wait and lose nothing.
OPTIONS = "nfsvers=4.2,proto=tcp,hard,_netdev"


#: It gets into files that systemd and NFS read as root, on other hosts too.
SharedPath = Annotated[str, Meta(pattern=r"\A/[^\0-\x1f\x7f\\]{0,4095}\Z")]


class ShareHeader(TypedDict):
    """The first line of a file of ours on a host, and whether the folder is mounted."""

    role: Literal["server", "client"]
    mounted: bool
    tpu: Word
    path: SharedPath
    address: Address
    clients: Annotated[list[tuple[Word, Count, Address]], Meta(max_length=4096)]


class SharingHost(Struct, frozen=True, kw_only=True):
    """What `on_host.files.shares.examine_sharing` says of a host."""

    user: Line
    uid: Count
    gid: Count
    home: SharedPath
    path: SharedPath  # of the folder
    root: bool  # whether the user may act as root
    systemd: bool
    server_kernel: bool
    client_kernel: bool
    server_tools: bool
    client_tools: bool
    apt: bool
    state: Literal["missing", "folder", "empty", "other", "denied"]  # of the folder
    mounted: Line  # the kind of file system that is mounted there; "" if none
    shares: Annotated[list[ShareHeader], Meta(max_length=1024)]


PROGRAM = HostProgram("files.shares", {"examine_sharing": SharingHost, "change_sharing": Nothing})


class Client(Struct, frozen=True):
    """A host that gets the folder."""

    tpu: str
    host: int
    address: str  # internal


class Share(Struct, frozen=True, kw_only=True):
    """A folder, where it is and who gets it."""

    tpu: str  # whose host 0 has it
    path: str
    address: str  # internal, of that host
    clients: tuple[Client, ...]

    @property
    def id(self) -> str:
        return hashlib.sha256(self.path.encode()).hexdigest()[:8]

    @property
    def mark(self) -> str:
        """The first line of our files, from which they are known again."""
        payload = {
            "id": self.id,
            "tpu": self.tpu,
            "path": self.path,
            "address": self.address,
            "clients": [[client.tpu, client.host, client.address] for client in self.clients],
        }
        return MARK + json.dumps(payload) + "\n"


Step = dict[str, Any]


def check_folder(folder: str) -> str:
    """The folder as hosts take it; raises INVALID for what systemd or NFS could not have."""
    path = folder.removeprefix("~/").rstrip("/")
    parts = path.removeprefix("/").split("/")
    if not all(parts) or {".", "..", "~"} & set(parts):
        raise InvalidInput(
            f"{folder!r} is not a folder that can be shared.",
            "Name one in the home folder, such as shared, or one that begins with /. It has no . "
            "or .. in it.",
        )
    if re.search(r"[\x00-\x1f\x7f\\]", path) or path != path.strip():
        raise InvalidInput(
            f"{folder!r} can't be shared: its name has control characters, a backslash, or a space "
            "at its end."
        )
    return path


def why_not(host: SharingHost, *, server: bool) -> tuple[str, str]:
    """Why a host can't share, and what to do; ("", "") if it can."""
    both = "TPU VMs have both. Emulated hosts have neither."
    if not (host.server_kernel if server else host.client_kernel):
        if host.systemd:
            return phrase("its kernel has no NFS"), both
        return phrase("it has no systemd and its kernel has no NFS"), both
    if not host.systemd:
        return phrase("it has no systemd"), both
    if not host.root:
        return (
            phrase(f"the user {host.user} may not use sudo"),
            "Log in as a user that may, or ask for that right.",
        )
    if not (host.server_tools if server else host.client_tools) and not host.apt:
        why = phrase("its NFS programs are missing, and it has no apt-get")
        return why, "Install them there."
    if host.state in ("other", "denied"):
        return phrase(f"{host.path} is not a folder of {host.user}"), "Name another folder."
    if server and host.mounted.startswith("nfs"):
        return phrase(f"{host.path} is itself on another host"), "Share it from there."
    if not server and host.state == "folder" and not host.mounted:
        return (
            phrase(f"{host.path} has files there, which the shared folder would hide"),
            "Move them away, or name another folder.",
        )
    if not server and host.mounted and not host.mounted.startswith(("nfs", "autofs")):
        return phrase(f"something else is mounted at {host.path}"), "Name another folder."
    return "", ""


def server_steps(share: Share, host: SharingHost) -> list[Step]:
    """What host 0 does to share the folder."""
    steps: list[Step] = []
    if not host.server_tools:
        steps.append({"do": "packages", "names": ["nfs-kernel-server"]})
    return [
        *steps,
        {"do": "folder", "path": share.path},
        {
            "do": "write",
            "path": EXPORTS.format(share.id),
            "text": exports_text(share, host.uid, host.gid),
        },
        {"do": "run", "argv": ["systemctl", "enable", "--now", "nfs-server"]},
        {"do": "run", "argv": ["exportfs", "-ra"]},
    ]


def client_steps(share: Share, host: SharingHost) -> list[Step]:
    """What a host does to get the folder."""
    steps: list[Step] = []
    if not host.client_tools:
        steps.append({"do": "packages", "names": ["nfs-common"]})
    name = unit_name(share.path)
    if not host.mounted:
        steps.append({"do": "folder", "path": share.path})
    return [
        *steps,
        {"do": "write", "path": f"{UNITS}{name}.mount", "text": mount_unit(share)},
        {"do": "write", "path": f"{UNITS}{name}.automount", "text": automount_unit(share)},
        {"do": "run", "argv": ["systemctl", "daemon-reload"]},
        {"do": "run", "argv": ["systemctl", "enable", "--now", f"{name}.automount"]},
        {"do": "check", "path": share.path},
    ]


def client_removal(share: Share) -> list[Step]:
    """What a host does to lose the folder again. The files stay on host 0."""
    name = unit_name(share.path)
    return [
        {"do": "unmount", "path": share.path},
        {
            "do": "run",
            "argv": ["systemctl", "disable", "--now", f"{name}.automount"],
            "optional": True,
        },
        {"do": "delete", "path": f"{UNITS}{name}.automount"},
        {"do": "delete", "path": f"{UNITS}{name}.mount"},
        {"do": "run", "argv": ["systemctl", "daemon-reload"]},
        {"do": "remove_folder", "path": share.path},
    ]


def server_removal(share: Share, kept: tuple[Client, ...], host: SharingHost) -> list[Step]:
    """What host 0 does when only *kept* have the folder any more. The folder and its files stay."""
    path = EXPORTS.format(share.id)
    left = msgspec.structs.replace(share, clients=kept)
    text = exports_text(left, host.uid, host.gid)
    return [
        {"do": "write", "path": path, "text": text} if kept else {"do": "delete", "path": path},
        {"do": "run", "argv": ["exportfs", "-ra"]},
    ]


def exports_text(share: Share, uid: int, gid: int) -> str:
    """The file for exports(5): spaces and the like are octal there."""
    options = f"rw,sync,no_subtree_check,all_squash,anonuid={uid},anongid={gid}"
    path = "".join(
        f"\\{byte:03o}" if byte <= 0x20 or chr(byte) in "\"#\\'()" else chr(byte)
        for byte in share.path.encode()
    ).encode("latin-1")
    clients = " ".join(f"{client.address}({options})" for client in share.clients)
    return share.mark + f"{path.decode()} {clients}\n"


def mount_unit(share: Share) -> str:
    """See systemd.mount(5). It has no [Install]: the automount starts it."""
    return share.mark + (
        "[Unit]\n"
        f"Description={_unit_text(share.path)} of {share.tpu} (jupyter-tpu)\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "\n[Mount]\n"
        f"What={share.address}:{_unit_text(share.path)}\n"
        f"Where={_unit_text(share.path)}\n"
        "Type=nfs4\n"
        f"Options={OPTIONS}\n"
        "TimeoutSec=30\n"
    )


def automount_unit(share: Share) -> str:
    """See systemd.automount(5)."""
    return share.mark + (
        "[Unit]\n"
        f"Description={_unit_text(share.path)} of {share.tpu}, on first use (jupyter-tpu)\n"
        "\n[Automount]\n"
        f"Where={_unit_text(share.path)}\n"
        "\n[Install]\n"
        "WantedBy=remote-fs.target\n"
    )


def unit_name(path: str) -> str:
    """The name of the unit for what is mounted at *path*, as `systemd-escape --path` makes it."""
    plain = re.compile(rb"[A-Za-z0-9:_.]")
    name = ""
    for at, byte in enumerate(path.strip("/").encode()):
        one = bytes([byte])
        if one == b"/":
            name += "-"
        elif plain.fullmatch(one) and not (at == 0 and one == b"."):
            name += one.decode()
        else:
            name += f"\\x{byte:02x}"
    return name


def _unit_text(text: str) -> str:
    return text.replace("%", "%%")


def step_text(step: Step) -> str:
    """A step for a person: as a command, or what is written."""
    match step["do"]:
        case "packages":
            return f"apt-get install {' '.join(step['names'])}"
        case "folder":
            return f"mkdir -m 700 {step['path']}   (if it does not exist)"
        case "write":
            return f"write {step['path']}"
        case "run":
            return " ".join(step["argv"])
        case "delete":
            return f"rm {step['path']}"
        case "unmount":
            return f"umount {step['path']}"
        case "remove_folder":
            return f"rmdir {step['path']}   (if it is empty)"
        case "check":
            return f"check that {step['path']} is mounted and answers"
    raise AssertionError(step)


def step_content(step: Step) -> str:
    """What a step writes; "" for others."""
    return str(step.get("text", ""))


def share_of(payload: ShareHeader) -> Share:
    """The share that the first line of one of our files says."""
    return Share(
        tpu=payload["tpu"],
        path=payload["path"],
        address=payload["address"],
        clients=tuple(Client(*client) for client in payload["clients"]),
    )


def without_strangers(
    share: Share, asked: Collection[str], known: Mapping[Client, SharingHost]
) -> Share:
    """The share for the TPUs that were *asked* for. Host 0 names others that have it already; of
    these, those count that say so themselves: it must not choose who mounts its files.
    """

    def has(client: Client) -> bool:
        return client.tpu in asked or any(
            (record["role"], record["tpu"], record["path"]) == ("client", share.tpu, share.path)
            for record in known[client].shares
        )

    return msgspec.structs.replace(share, clients=tuple(filter(has, share.clients)))
