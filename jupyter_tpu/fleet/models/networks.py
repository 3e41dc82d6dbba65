"""A VPC network for TPUs: what it should let in, and what has to be changed for that."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

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
    #: None: the network's own in the region of the zone.
    subnetwork: NetworkName | None = None
    #: Where TPUs will be; None: the zone of gcloud's configuration, if there is one.
    zone: str | None = None
    #: Internal addresses of a new subnetwork ("10.0.0.0/20"); None: a free range.
    range: str | None = None
    #: IPv4 addresses and ranges that may use SSH. Empty: with `iap` none, else the server's own, as
    #: a connected TPU sees it.
    sources: list[str] = []
    #: Whether anyone on the internet may try SSH. Required for a source as wide as 0.0.0.0/0.
    anywhere: bool = False
    #: The same addresses may use mosh (UDP ports 60000-61000), too.
    mosh: bool = False
    #: SSH through Google's Identity-Aware Proxy, for TPUs without external addresses.
    iap: bool = False
    #: Take earlier addresses out of the rules that were set up here.
    replace: bool = False
    #: Change nothing: the answer says what would be changed.
    dry_run: bool = False


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
