"""The OS Login API over REST: a user's profile, and the import of SSH keys; and who the user is."""

from __future__ import annotations

from aiohttp import web

from ..engine import Engine
from ..model import api_errors
from .rest import json_body

#: Whose credentials the emulator's token is.
ACCOUNT = "you@example.com"
_USER = "/oslogin/{version:v1|v1beta|v1alpha}/users/{user:[^/:]+}"


def add_routes(app: web.Application, engine: Engine) -> None:
    """``users/U/loginProfile``, ``users/U:importSshPublicKey``, ``users/U/sshPublicKeys/K``, and
    OpenID Connect's ``userinfo``.
    """
    os_login = engine.model.os_login

    def project(request: web.Request) -> str:
        return request.query.get("projectId", "emulated")

    async def get_user(_: web.Request) -> web.Response:
        return web.json_response({"sub": "1", "email": ACCOUNT, "email_verified": True})

    async def get_profile(request: web.Request) -> web.Response:
        return web.json_response(os_login.profile(request.match_info["user"], project(request)))

    async def import_key(request: web.Request) -> web.Response:
        body = await json_body(request)
        user = request.match_info["user"]
        if not isinstance(body, dict) or not isinstance(key := body.get("key"), str) or not key:
            raise api_errors.required_field("ssh_public_key.key")
        os_login.import_key(user, key, int(body.get("expirationTimeUsec") or 0))
        await engine.set_all_users()
        profile = os_login.profile(user, project(request))
        return web.json_response({"loginProfile": profile})

    async def get_key(request: web.Request) -> web.Response:
        user, fingerprint = request.match_info["user"], request.match_info["key"]
        return web.json_response(os_login.key(user, fingerprint))

    async def delete_key(request: web.Request) -> web.Response:
        os_login.delete_key(request.match_info["user"], request.match_info["key"])
        await engine.set_all_users()
        return web.json_response({})

    app.router.add_get("/openidconnect/v1/userinfo", get_user)
    app.router.add_get(f"{_USER}/loginProfile", get_profile)
    app.router.add_post(f"{_USER}:importSshPublicKey", import_key)
    app.router.add_get(f"{_USER}/sshPublicKeys/{{key}}", get_key)
    app.router.add_delete(f"{_USER}/sshPublicKeys/{{key}}", delete_key)
