"""Checks of the setup, networks, SSH keys, logging and tokens of a project."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ... import catalog
from ...catalog import AcceleratorType
from ...cloud.models import Tier
from ...environment import Finding, Report
from ...options import option
from ...own_log import LogLine
from .core import image_warning


class CheckSetup(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be created, as far as that is known: then more can be checked."""

    type: Annotated[
        str | None,
        option(
            "Check whether a TPU of this type could be created.", "--type", "--accelerator-type"
        ),
    ] = None
    zone: str | None = None
    version: Annotated[
        str | None, option("Its runtime version.", default="depends on the type")
    ] = None
    tier: Tier = "on-demand"
    network: Annotated[str | None, option("The network whose firewall is checked.")] = None


class OwnLogQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which part of jupyter-tpu's own log."""

    #: So many of the last lines.
    tail: Annotated[int, Meta(ge=1, le=5000)] = 500
    #: Only lines with this text, in any case.
    search: str = ""


class OwnLog(Struct, kw_only=True):
    """What jupyter-tpu has done on this computer, the oldest line first."""

    lines: list[LogLine]


class Diagnosis(Struct, kw_only=True):
    """The findings about a TPU, and about all its hosts, host by host; each has at least one.

    Before there is a TPU, those about the project.
    """

    #: "": before there is one.
    tpu: str
    zone: str
    emulated: bool
    #: No finding is a problem.
    healthy: bool
    findings: list[Finding]


def image_finding(accelerator: AcceleratorType, version: str, hint: str) -> Finding:
    """Whether a TPU of that type works with that runtime version; *hint*: what to do if not."""
    name = f"{version} on {accelerator.name}"
    fits = catalog.image_fits(version, accelerator)
    if fits:
        return Report().ok("image", f"The runtime version fits: {name}.")
    if fits is None:
        unknown = f"Whether the runtime version fits is not known: {name}."
        return Report().unknown("image", unknown, hint)
    return Report().problem("image", image_warning(version, accelerator.name), hint)


class SetLogging(Struct, kw_only=True, forbid_unknown_fields=True):
    #: Whether Cloud Logging stores the logs of the TPU's hosts from now on.
    enabled: bool


class TPULogging(Struct, kw_only=True):
    tpu: str
    zone: str
    project: str
    emulated: bool
    #: Whether the logs are stored: false where an exclusion that was made here keeps them out.
    enabled: bool
    #: What finds the logs in Cloud Logging.
    filter: str
    #: What storing a GiB costs, beyond the free GiB that a project has each month.
    usd_per_gib: float
    free_gib: int
    #: The date of the price.
    price_date: str


NetworkName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$(?!\n)",
        description="1–63 lower-case letters, digits and hyphens, beginning with a letter",
    ),
]


class SetUpNetwork(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a network should have."""

    network: NetworkName = "default"
    subnetwork: Annotated[
        NetworkName | None,
        option("Its name.", "--subnetwork", "--subnet", default="the network's own in the region"),
    ] = None
    #: Where TPUs will be; None: the zone of gcloud's configuration, if there is one.
    zone: str | None = None
    range: Annotated[
        str | None,
        option(
            "Internal addresses of a new subnetwork, such as 10.0.0.0/20.", default="a free range"
        ),
    ] = None
    #: Empty: with `iap` none, else the server's own, as a connected TPU sees it.
    sources: Annotated[
        list[str],
        option(
            "Who may use SSH: an IPv4 address or range.",
            "--source",
            "--source-ranges",
            metavar="ADDRESS",
            typing_hint="Repeatable.",
            default="this computer, if a TPU is connected",
        ),
    ] = []
    #: Required for a source as wide as 0.0.0.0/0.
    anywhere: Annotated[bool, option("Anyone on the internet may try to log in (0.0.0.0/0).")] = (
        False
    )
    mosh: Annotated[bool, option("They may also use mosh (UDP 60000-61000).")] = False
    iap: Annotated[
        bool,
        option(
            "SSH through Identity-Aware Proxy, for TPUs without external addresses. Other "
            "addresses may use SSH only with --source."
        ),
    ] = False
    replace: Annotated[
        bool, option("Remove earlier addresses from the rules that this command created.")
    ] = False
    #: Change nothing: the answer says what would be changed.
    dry_run: Annotated[bool, option("Only show what would be done.")] = False


class NetworkSetup(Struct, kw_only=True):
    """A network compared with what it should have."""

    project: str
    network: str
    #: "": not known without a zone.
    subnetwork: str
    region: str
    emulated: bool
    #: Who is let in.
    sources: list[str]
    #: What is right already.
    found: list[str]
    #: What was changed, or would be (`dry_run`), in order.
    changes: list[str]
    #: What you have to change yourself.
    blocked: list[str]
    #: What one should know.
    warnings: list[str]
    dry_run: bool


class AddSSHKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to add the key that jupyter-tpu uses for TPUs."""

    to: Annotated[
        Literal["auto", "account", "project"],
        option(
            "account: your Google account, for OS Login. project: the project's metadata. auto: "
            "what the project uses."
        ),
    ] = "auto"
    days: Annotated[
        int, Meta(ge=1, le=3650), option("For how many days it may log in.", metavar="N")
    ] = 90
    #: Change nothing: the answer says what would be changed.
    dry_run: bool = False


class RemoveSSHKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """The key is removed from your Google account and from the project's metadata."""

    #: Change nothing: the answer says what would be changed.
    dry_run: bool = False


class SSHKeyPlace(Struct, kw_only=True):
    """One place that lets the key log in."""

    #: The user name on hosts.
    user: str
    #: Until when, RFC 3339; "": without end.
    until: str = ""


class SSHKeyStatus(Struct, kw_only=True):
    """The key that jupyter-tpu uses for TPUs, and what lets it log in."""

    project: str
    emulated: bool
    #: As `ssh-keygen -l` prints it.
    fingerprint: str
    #: The file with the private key.
    path: str
    #: The user name on hosts without OS Login.
    user: str
    #: Whether the project uses OS Login: hosts then ignore keys in metadata.
    os_login: bool
    #: The address of your Google account; "" where it was not asked for.
    account: str = ""
    #: In the Google account; null: it is not there, or was not asked for.
    in_account: SSHKeyPlace | None = None
    #: In the project's metadata; null: it is not there.
    in_project: SSHKeyPlace | None = None
    #: What was changed, or would be (`dry_run`).
    changes: list[str] = field(default_factory=list)
    #: What one should know.
    warnings: list[str] = field(default_factory=list)


class Token(Struct, kw_only=True):
    """A variable that kernels, commands and jobs on TPUs get when they are started."""

    name: str
    #: Where its value is found now: "environment", or a file. "": nowhere, so they don't get it.
    source: str = ""
    #: What to do where it is not found.
    hint: str = ""
    #: Whether what coding agents start gets it, too.
    agents: bool = False


class PassTokens(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a request to pass tokens on."""

    #: Names of variables, such as HF_TOKEN.
    names: list[str]
    #: Also to what coding agents start.
    agents: bool = False
