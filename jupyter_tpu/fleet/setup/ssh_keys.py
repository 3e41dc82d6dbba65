"""Our SSH key in the user's Google account or in the project, and the tokens that TPUs get.

A TPU's own metadata gets the key when the TPU is created or connected. That is not enough where OS
Login decides who logs in, or where the user may not change TPUs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ... import tokens
from ...cloud import Cloud, uses_os_login
from ...cloud.compute import OSLoginProfiles, ProjectMetadata
from ...cloud.google_apis import GoogleAPIs
from ...errors import InvalidInput, Reason, TPUError, error_for
from ...links import logins
from ...ssh import ensure_key, fingerprint, public_key
from ...ssh.keys import USER_VARIABLE, user_name
from ..models import AddSSHKey, PassTokens, RemoveSSHKey, SSHKeyPlace, SSHKeyStatus, Token
from ..models.core import timestamp, validated

_KEYS = "ssh-keys"
_DAY_SECONDS = 24 * 3600.0
#: As Google writes the end of a key in metadata.
_EXPIRY = "%Y-%m-%dT%H:%M:%S%z"
#: What Google's guest agent can create; root may not log in.
_USER = re.compile(r"(?!root$)[a-z_][-a-z0-9_.]{0,31}")


class SSHKeyService:
    """As a :class:`~jupyter_tpu.fleet.api.SSHKeyAPI`. changed: call it when the key was added."""

    def __init__(self, cloud: Cloud, changed: Callable[[], None]) -> None:
        self._cloud = cloud
        self._changed = changed

    async def show(self) -> SSHKeyStatus:
        return await (await self._open()).status()

    async def add(self, request: AddSSHKey) -> SSHKeyStatus:
        request = validated(request)
        key = await self._open()
        ssh_key_status = await key.status()
        expires = time.time() + request.days * _DAY_SECONDS
        if request.to == "account" or (request.to == "auto" and ssh_key_status.os_login):
            await key.add_to_account(ssh_key_status, expires, dry_run=request.dry_run)
        else:
            await key.add_to_project(ssh_key_status, expires, dry_run=request.dry_run)
        if not request.dry_run:
            self._changed()
        return ssh_key_status

    async def remove(self, request: RemoveSSHKey | None = None) -> SSHKeyStatus:
        key = await self._open()
        ssh_key_status = await key.status()
        await key.remove(ssh_key_status, dry_run=request is not None and request.dry_run)
        return ssh_key_status

    async def _open(self) -> _Key:
        path = await asyncio.to_thread(ensure_key)
        return _Key(self._cloud, path, await asyncio.to_thread(public_key, path))


class _Key:
    """Our key and the project, for one request."""

    def __init__(self, cloud: Cloud, path: Path, public: str) -> None:
        self.project = cloud.project
        self.emulated = cloud.emulated
        self.path = path
        self.public = public
        apis = GoogleAPIs(cloud.target, self.project)
        self.metadata = ProjectMetadata(apis, self.project)
        self.profiles = OSLoginProfiles(cloud.target, apis, self.project)

    async def status(self) -> SSHKeyStatus:
        """The account is asked for only where OS Login is used."""
        metadata = await self.metadata.read()
        ssh_key_status = SSHKeyStatus(
            project=self.project,
            emulated=self.emulated,
            fingerprint=fingerprint(self.public),
            path=str(self.path),
            user=user_name(),
            os_login=bool(uses_os_login(metadata)),
            in_project=_key_location(metadata, self.public),
        )
        if ssh_key_status.os_login or logins.stored(self.project):
            ssh_key_status.account = await self.profiles.account()
            profile = await self.profiles.read()
            if self.public in profile.expires:
                until = profile.expires[self.public]
                ssh_key_status.in_account = SSHKeyPlace(user=profile.user, until=_moment(until))
            chosen = os.environ.get(USER_VARIABLE)
            if chosen and profile.user not in ("", chosen):
                ssh_key_status.warnings.append(
                    f"{USER_VARIABLE} is {chosen}, but with OS Login your name on hosts is "
                    f"{profile.user}. Unset the variable."
                )
        if ssh_key_status.os_login and ssh_key_status.in_project and not ssh_key_status.in_account:
            ssh_key_status.warnings.append(
                f"{self.project} uses OS Login, so its hosts ignore keys in its metadata."
            )
        return ssh_key_status

    async def add_to_account(self, status: SSHKeyStatus, expires: float, *, dry_run: bool) -> None:
        """As `add_to_project` and `remove` it says in *status* what it has done."""
        status.account = account = await self.profiles.account()
        until = _moment(expires)
        status.changes.append(
            f"Add the key {status.fingerprint} to the Google account {account} until {until}. It "
            "can log in to all hosts with OS Login to which this account may log in."
        )
        if dry_run:
            return
        user = (await self.profiles.add(self.public, expires)).user
        if not user:
            raise TPUError(
                f"Google gave {account} no user name for hosts of {self.project}.",
                Reason.PERMISSION,
                "Ask the project's owner for the role Compute OS Admin Login "
                "(roles/compute.osAdminLogin).",
            )
        login = logins.OSLogin(user=user, expires=expires, everywhere=status.os_login)
        try:
            await asyncio.to_thread(logins.store, self.project, login)
        except OSError as error:
            raise TPUError(
                f"The key is in the Google account {account} now, but that can't be stored here: "
                f"{error}.",
                Reason.UNAVAILABLE,
                "Check the disk, and add the key again.",
            ) from error
        status.in_account = SSHKeyPlace(user=user, until=until)

    async def add_to_project(self, status: SSHKeyStatus, expires: float, *, dry_run: bool) -> None:
        user, until = status.user, _moment(expires)
        if status.os_login:
            raise TPUError(
                f"{self.project} uses OS Login, so its hosts ignore keys in its metadata.",
                Reason.CONFLICT,
                "Add the key to your Google account: jupyter tpu ssh-key add --to account",
            )
        if not _USER.fullmatch(user):
            raise InvalidInput(
                f"Hosts have no user {user!r}: a name has lower-case letters, digits, _ and -, "
                "begins with a letter, and is not root.",
                f"Set {USER_VARIABLE} to another name.",
            )
        status.changes.append(
            f"Add the key {status.fingerprint} for the user {user} to the metadata of the project "
            f"{self.project} until {until}. It can log in to all hosts of the project, except "
            "those with block-project-ssh-keys."
        )
        if not dry_run:
            line = _line(user, self.public, expires)
            await self.metadata.change(lambda now: _with_keys(now, self.public, line))
            status.in_project = SSHKeyPlace(user=user, until=until)

    async def remove(self, status: SSHKeyStatus, *, dry_run: bool) -> None:
        name = status.fingerprint
        if status.in_account:
            if not dry_run:
                await self.profiles.remove(self.public)
                status.in_account = None
            status.changes.append(
                f"Remove the key {name} from the Google account {status.account}."
            )
        if not dry_run:
            await asyncio.to_thread(logins.forget_all)
        if status.in_project:
            if not dry_run:
                try:
                    await self.metadata.change(lambda now: _with_keys(now, self.public, ""))
                except TPUError as error:
                    done = f" Done before: {status.changes[0]}" if status.changes else ""
                    raise error_for(error.message + done, error.reason, error.hint) from error
                status.in_project = None
            status.changes.append(f"Remove the key {name} from the metadata of {self.project}.")


def _with_keys(now: Mapping[str, str], public: str, line: str) -> dict[str, str] | None:
    """The metadata with *line* instead of other lines with our key; None where nothing changes.

    line: "" for none.
    """
    old = now.get(_KEYS, "")
    lines = [line for line in old.splitlines() if line.strip() and not _has(line, public)]
    text = "\n".join([*lines, line] if line else lines)
    if text == old:
        return None
    others = {key: value for key, value in now.items() if key != _KEYS}
    return {**others, _KEYS: text} if text else others


def _line(user: str, public: str, expires: float) -> str:
    end = datetime.fromtimestamp(expires, UTC).strftime(_EXPIRY)
    return f"{user}:{public} google-ssh {json.dumps({'userName': user, 'expireOn': end})}"


def _key_location(metadata: Mapping[str, str], public: str) -> SSHKeyPlace | None:
    line = next((line for line in metadata.get(_KEYS, "").splitlines() if _has(line, public)), "")
    if not line:
        return None
    user, _, rest = line.strip().partition(":")
    text = rest.partition(" google-ssh ")[2]
    try:
        end = datetime.strptime(json.loads(text)["expireOn"], _EXPIRY).timestamp()
    except (ValueError, KeyError, TypeError):
        return SSHKeyPlace(user=user)
    return SSHKeyPlace(user=user, until=_moment(end))


def _has(line: str, public: str) -> bool:
    return line.strip().partition(":")[2].split()[:2] == public.split()[:2]


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else timestamp("seconds", seconds)


class Tokens:
    """As a :class:`~jupyter_tpu.fleet.api.TokensAPI`. The files are read in threads."""

    async def list(self) -> Sequence[Token]:
        return await asyncio.to_thread(_found)

    async def pass_on(self, request: PassTokens) -> Sequence[Token]:
        await asyncio.to_thread(tokens.pass_on, *request.names, agents=request.agents)
        return await self.list()

    async def remove(self, name: str) -> None:
        if not await asyncio.to_thread(tokens.keep_back, name):
            raise TPUError(f"{name} is not passed to TPUs.", Reason.NOT_FOUND)


def _found() -> Sequence[Token]:
    agents = tokens.passed_names(agents=True)
    found = [(name, tokens.find(name)) for name in tokens.passed_names()]
    return [
        Token(
            name=name,
            source=value.source if value else "",
            hint="" if value else tokens.how_to_set(name),
            agents=name in agents,
        )
        for name, value in found
    ]
