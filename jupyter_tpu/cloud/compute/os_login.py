"""OS Login: SSH keys of Google accounts, which log in under names that Google makes."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from ...errors import Reason, TPUError
from .. import gcloud
from ..auth import LOGIN, service_account
from ..google_apis import GoogleAPIs
from ..target import Target


class OSLoginProfile(Struct, frozen=True, kw_only=True):
    """What Google knows of an account.

    user: its name on hosts; "" if it has none yet. expires: when Google forgets each public key
    ("TYPE BASE64"), seconds since the epoch; None: never.
    """

    user: str
    expires: dict[str, float | None]


class OSLoginProfiles:
    """The account of the credentials of *target*, as it logs in to hosts of *project*.

    All methods raise what `GoogleAPIs` raises, and NO_CREDENTIALS where the account's address is
    not known.
    """

    def __init__(self, target: Target, apis: GoogleAPIs, project: str) -> None:
        self._target = target
        self._apis = apis
        self._project = project
        self._account = ""

    async def account(self) -> str:
        """Its address, "ann@example.com"."""
        if not self._account:
            self._account = await self._find_account()
        return self._account

    async def read(self) -> OSLoginProfile:
        profile = await self._apis.get(
            "oslogin", f"{await self._path()}/loginProfile", projectId=self._project
        )
        return _profile(profile)

    async def add(self, key: str, expires: float) -> OSLoginProfile:
        """Adds a public key until *expires*; one that is there already gets this time."""
        body = {"key": key, "expirationTimeUsec": str(int(expires * 1e6))}
        path = f"{await self._path()}:importSshPublicKey"
        answer = await self._apis.call("POST", "oslogin", path, body, projectId=self._project)
        return _profile(answer.get("loginProfile", {}))

    async def remove(self, key: str) -> bool:
        """False if it is not there."""
        path = await self._path()
        profile = await self._apis.get("oslogin", f"{path}/loginProfile", projectId=self._project)
        for name, ssh_key in profile.get("sshPublicKeys", {}).items():
            if _same(str(ssh_key.get("key", "")), key):
                await self._apis.call("DELETE", "oslogin", f"{path}/sshPublicKeys/{quote(name)}")
                return True
        return False

    async def _path(self) -> str:
        return f"/v1/users/{quote(await self.account(), safe='@')}"

    async def _find_account(self) -> str:
        if self._target.emulator is None and (
            account_name := await asyncio.to_thread(service_account)
        ):
            return account_name
        try:  # without the project, whose API this is not
            payload = await GoogleAPIs(self._target).get("openidconnect", "/v1/userinfo")
        except TPUError as error:  # credentials that may not say it
            if error.reason not in (Reason.PERMISSION, Reason.NO_CREDENTIALS):
                raise
            payload = {}
        account_name = str(payload.get("email") or gcloud.setting("core", "account") or "")
        if not account_name:
            raise TPUError(
                "The address of your Google account is not known.", Reason.NO_CREDENTIALS, LOGIN
            )
        return account_name


def _profile(payload: dict[str, Any]) -> OSLoginProfile:
    accounts = sorted(
        payload.get("posixAccounts", ()), key=lambda account: not account.get("primary")
    )
    expires = {
        " ".join(str(key.get("key", "")).split()[:2]): int(key["expirationTimeUsec"]) / 1e6
        if key.get("expirationTimeUsec")
        else None
        for key in payload.get("sshPublicKeys", {}).values()
    }
    user = accounts[0].get("username", "") if accounts else ""
    return OSLoginProfile(user=str(user), expires=expires)


def _same(one: str, other: str) -> bool:
    return one.split()[:2] == other.split()[:2]
