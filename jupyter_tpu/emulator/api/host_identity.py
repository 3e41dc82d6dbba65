"""The identity of hosts: a metadata server that gives a token, and what that token allows.

It also takes what a host publishes of itself: guest attributes. Cloud Storage is there, too, for
clients that show no token to an emulator.

Emulated hosts share this machine's network, so their metadata server is a folder of the REST
address whose name is secret (``GCE_METADATA_HOST`` may have a path): other users can't guess it.
The token of a host works for its own TPU only. A real one is for all that its service account may.
"""

from __future__ import annotations

import hashlib
import re

from aiohttp import web

from ..engine import Engine
from ..model import api_errors
from ..model.instance_records import InstanceRecord
from ..model.notices import QUIET
from ..model.records import NodeRecord
from ..state_folder import EmulatorToken
from .messages import SCOPE
from .services import project_number

METADATA = "/metadata/"
#: Where Cloud Storage is, whose calls look themselves for what a host may do.
_STORAGE = re.compile("(?:/(?:batch|download|(?:resumable/)?upload))?/storage/v1(?:/.*)?")
#: Where clients on a host find the APIs, by gcloud's names of them.
_SERVICES = {
    "TPU": "",
    "COMPUTE": "compute/v1/",
    "CLOUDRESOURCEMANAGER": "cloudresourcemanager/",
    "STORAGE": "storage/v1/",
}
_PERMISSIONS = "/cloudresourcemanager/v1/projects/%s:testIamPermissions"
#: What a token of a host begins with; then come the node's id and a signature.
_TOKEN = re.compile(r"Bearer ya29\.host-([^.]+)\.([0-9a-f]+)")


class HostIdentities:
    """The secrets of hosts, derived from the emulator's own *token*."""

    def __init__(self, token: EmulatorToken) -> None:
        self._token = token

    def variables(self, node_id: str, rest: str, worker: int = 0) -> dict[str, str]:
        """What programs on a host of a node need; *rest*: the REST address."""
        host = f"{node_id}-{worker}"
        folder = f"{METADATA}{host}.{self._token.sign(f'metadata {host}')}"
        place = f"{rest.partition('://')[2]}{folder}"
        return {
            # TensorStore knows the second, google-auth needs the third to find out where it is.
            **dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"), place),
            # Cloud Storage for google-cloud-storage and gcsfs, and for TensorStore.
            **dict.fromkeys(("STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL"), rest + folder),
            # Without it, gcsfs asks for each bucket's type by gRPC over TLS, a minute each time.
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            **{
                f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name}": f"{rest}/{path}"
                for name, path in _SERVICES.items()
            },
        }

    def node_of_folder(self, folder: str) -> str:
        """The node's id; "" for a wrong folder."""
        return self.host_of_folder(folder)[0]

    def host_of_folder(self, folder: str) -> tuple[str, int]:
        """The node's id and the worker; "" for a wrong folder."""
        host, _, signature = folder.partition(".")
        if not self._token.is_signed(f"metadata {host}", signature):
            return "", 0
        id, _, worker = host.rpartition("-")
        return id, int(worker)

    def access_token(self, node_id: str) -> str:
        return f"ya29.host-{node_id}.{self._token.sign(f'access {node_id}')}"

    def caller(self, request: web.Request, engine: Engine) -> NodeRecord | None:
        """The TPU whose token the request shows, or in whose folder it is; None: the owner calls.

        Raises HTTPForbidden for a wrong folder.
        """
        if (folder := request.match_info.get("folder")) is None:
            return self._node_of_token(request, engine)
        node = engine.model.machine(self.node_of_folder(folder))
        if node is None:
            raise web.HTTPForbidden
        return node

    def _node_of_token(self, request: web.Request, engine: Engine) -> NodeRecord | None:
        shown = _TOKEN.fullmatch(request.headers.get("Authorization", ""))
        if shown is None or not self._token.is_signed(f"access {shown[1]}", shown[2]):
            return None
        return engine.model.machine(shown[1])

    def allows(self, request: web.Request, engine: Engine) -> bool:
        """Whether the request shows the token of a host, and is about that host's TPU, or about
        Cloud Storage.

        Raises ApiError for a host whose scopes do not suffice.
        """
        node = self._node_of_token(request, engine)
        if node is None:
            return False
        if _STORAGE.fullmatch(request.path):
            return True
        if SCOPE not in _scopes(node):
            raise api_errors.insufficient_scopes()
        if isinstance(node, InstanceRecord):
            paths = [f"/compute/v1/{path}" for path in (node.path, node.group) if path]
            peers = [f"/compute/v1/{node.parent}/instances/{h.hostname}" for h in node.hosts]
            return (
                (request.path in paths and request.method in ("GET", "DELETE"))
                or (request.method, request.path) == ("POST", f"{paths[0]}/stop")
                or request.path in [f"{peer}/getGuestAttributes" for peer in peers]
                or request.path == _PERMISSIONS % node.project
            )
        path = f"/v2/{node.path}"
        return (request.method, request.path) in {
            ("GET", path),
            ("DELETE", path),
            ("POST", f"{path}:stop"),
            ("POST", f"{path}:getGuestAttributes"),
            ("POST", _PERMISSIONS % node.project),
        }


def _etag(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:16]


def _scopes(node: NodeRecord) -> list[str]:
    return node.scopes or [SCOPE]


def account_of(node: NodeRecord) -> str:
    """The service account that a TPU's hosts have."""
    return node.service_account or f"emulated@{node.project}.iam.gserviceaccount.com"


def add_routes(app: web.Application, engine: Engine, identities: HostIdentities) -> None:
    """The metadata server of each node: its service account, and what of the node is asked most."""

    async def answer(request: web.Request) -> web.Response:
        id = identities.node_of_folder(request.match_info["folder"])
        node = engine.model.machine(id)
        if node is None or request.headers.get("Metadata-Flavor") != "Google":
            raise web.HTTPForbidden
        account, number = account_of(node), str(project_number(node.project))
        name = "instance/service-accounts/default"
        content = {
            "": "computeMetadata/\n",
            "project/project-id": node.project,
            "project/numeric-project-id": number,
            "instance/zone": f"projects/{number}/zones/{node.zone}",
            "instance/service-accounts/": f"default/\n{account}/\n",
            f"{name}/email": account,
            "universe/universe-domain": "googleapis.com",
            f"{name}/": {"aliases": ["default"], "email": account, "scopes": _scopes(node)},
            f"{name}/token": {
                "access_token": identities.access_token(id),
                "expires_in": 3599,
                "token_type": "Bearer",
            },
            **{f"instance/attributes/{key}": value for key, value in node.attributes.items()},
        }.get((path := request.match_info.get("path", "")).replace(f"/{account}/", "/default/"))
        flavor = {"Metadata-Flavor": "Google"}
        if (key := path.removeprefix("instance/")) in QUIET:
            value = await notice(key, id, request)
            return web.Response(text=value, headers={**flavor, "ETag": _etag(value)})
        if content is None:
            raise web.HTTPNotFound
        if isinstance(content, str):
            return web.Response(text=content, headers=flavor)
        return web.json_response(content, headers=flavor)

    async def notice(key: str, id: str, request: web.Request) -> str:
        value, known = engine.notices.get(id, key), request.query.get("last_etag")
        if request.query.get("wait_for_change") != "true" or known not in (None, _etag(value)):
            return value
        try:
            seconds = float(request.query.get("timeout_sec", "inf"))
        except ValueError:
            raise web.HTTPBadRequest from None
        return await engine.notices.wait(id, key, value, seconds)

    async def publish(request: web.Request) -> web.Response:
        """A guest attribute of one host."""
        id, worker = identities.host_of_folder(request.match_info["folder"])
        node = engine.model.machine(id)
        if node is None or request.headers.get("Metadata-Flavor") != "Google":
            raise web.HTTPForbidden
        namespace, key = request.match_info["namespace"], request.match_info["key"]
        if isinstance(node, InstanceRecord) and not engine.model.publishes(node):
            raise web.HTTPForbidden
        node.hosts[worker].published[f"{namespace}/{key}"] = await request.text()
        return web.Response()

    version = f"{METADATA}{{folder}}/computeMetadata/v1"
    app.router.add_get(f"{METADATA}{{folder}}", answer)
    app.router.add_get(f"{METADATA}{{folder}}/", answer)
    app.router.add_get(f"{version}/{{path:.+}}", answer)
    app.router.add_put(f"{version}/instance/guest-attributes/{{namespace}}/{{key}}", publish)
