"""``jupyter tpu ssh-key``: the SSH key for TPUs in the Google account, or in the project."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click

from ..terminal.field_options import options_of
from ..terminal.grammar import Group, examples
from ..terminal.parameters import project_option
from ..terminal.printing import json_option, print_json, print_result
from ..terminal.questions import confirm, yes_option
from ..terminal.session import FleetSession, fleet_call, open_session
from ..wording import phrase

if TYPE_CHECKING:
    from ..fleet.models import SSHKeyPlace, SSHKeyStatus


@click.group("ssh-key", cls=Group, aliases={"show": "describe"})
def ssh_key() -> None:
    """Show, add and remove the SSH key with which jupyter-tpu logs in to TPUs.

    A TPU gets the key when it is created or connected, so most people need none of this. Add the
    key where the project uses OS Login, or where you may not change TPUs.
    """


@ssh_key.command("describe")
@project_option
@json_option
def describe(as_json: bool) -> None:
    """Show the key, and where it is known."""
    ssh_key_status = fleet_call(lambda fleet: fleet.ssh_key.show())
    print_result(ssh_key_status, describe_key(ssh_key_status), as_json)


@ssh_key.command(
    "add",
    epilog=examples(
        "jupyter tpu ssh-key add",
        "jupyter tpu ssh-key add --to project --days 7",
    ),
)
@options_of("AddSSHKey", "to", "days")
@project_option
@yes_option("Do not ask.")
@json_option
def add(fields: dict[str, Any], yes: bool, as_json: bool) -> None:
    """Add the key to your Google account (OS Login) or to the project's metadata.

    Shows what it will do, and asks. Do it again before the key expires.
    """
    from ..fleet.models import AddSSHKey

    def call(session: FleetSession, dry_run: bool) -> Coroutine[Any, Any, SSHKeyStatus]:
        request = AddSSHKey(dry_run=dry_run, **fields)
        return session.fleet.ssh_key.add(request)

    _change(call, yes=yes, as_json=as_json)


@ssh_key.command("remove")
@project_option
@yes_option("Do not ask.")
@json_option
def remove(yes: bool, as_json: bool) -> None:
    """Remove the key from your Google account and from the project's metadata.

    TPUs that have it in their own metadata still accept it.
    """
    from ..fleet.models import RemoveSSHKey

    def call(session: FleetSession, dry_run: bool) -> Coroutine[Any, Any, SSHKeyStatus]:
        return session.fleet.ssh_key.remove(RemoveSSHKey(dry_run=dry_run))

    _change(call, yes=yes, as_json=as_json)


def _change(
    call: Callable[[FleetSession, bool], Coroutine[Any, Any, SSHKeyStatus]],
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Shows what would be changed, asks, and does it."""
    with open_session() as session:
        ssh_key_status = session.call(call(session, True))
        if ssh_key_status.changes:
            if not yes:
                text = "\n".join(ssh_key_status.changes)
                print(text, file=sys.stderr if as_json else sys.stdout, flush=True)
                confirm("Do this?", "Add --yes to do it without asking.")
            ssh_key_status = session.call(call(session, False))
    if as_json:
        print_json(ssh_key_status)
    elif ssh_key_status.changes:
        print(
            "\n".join(
                [
                    *(f"Done: {text}" for text in ssh_key_status.changes),
                    "",
                    describe_key(ssh_key_status),
                ]
            )
        )
    else:
        print("The key is neither in your Google account nor in the project's metadata.")


def describe_key(status: SSHKeyStatus) -> str:
    """The key, where it is known, and what hosts accept."""
    emulated = " (emulated)" if status.emulated else ""
    rule = phrase("hosts accept keys in metadata")
    if status.os_login:
        rule = phrase("hosts accept Google accounts (OS Login)")
    rows = [
        ("key", f"{status.fingerprint} ({status.path})"),
        ("project", f"{status.project}{emulated}: {rule}"),
        (
            "account",
            _location_text(status.in_account, status.account)
            if status.account
            else phrase("not used"),
        ),
        ("metadata", _location_text(status.in_project, f"of {status.project}")),
    ]
    if not status.os_login:
        user = status.user
        rows.append(
            ("TPUs", phrase(f"get the key when they are created or connected: user {user}"))
        )
    lines = [f"{name:9} {text}" for name, text in rows]
    return "\n".join([*lines, *(f"WARNING   {text}" for text in status.warnings)])


def _location_text(place: SSHKeyPlace | None, where: str) -> str:
    if place is None:
        return f"{where}: {phrase('the key is not there')}"
    until = phrase(f"until {place.until}" if place.until else "no end")
    return f"{where}: {phrase(f'user {place.user}')} · {until}"
