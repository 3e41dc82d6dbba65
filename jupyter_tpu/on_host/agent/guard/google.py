"""Stops or deletes this TPU by Google's API, as the service account of this VM.

A TPU of the Cloud TPU API is a node: ``projects/P/locations/Z/nodes/N``. One of Compute Engine is
``projects/P/zones/Z/instances/N``; with several hosts ``…/instanceGroupManagers/N``.

The token comes from the metadata server, to which each host can also publish guest attributes;
those of all hosts are read by the API. Sources: cloud.google.com/compute/docs/access/
authenticate-workloads#applications, cloud.google.com/compute/docs/metadata/manage-guest-attributes,
cloud.google.com/tpu/docs/reference/rest and cloud.google.com/compute/docs/reference/rest/v1.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from typing import Any, Dict, List, Optional, Tuple

#: Seconds for one answer.
REQUEST_TIMEOUT = 20.0
#: The label of a group of instances that says which TPU it is (`OPERATION_LABEL`).
_LABEL = "jupyter-tpu-operation"
#: What reading an answer raises that breaks off or is none.
_BROKEN = (OSError, ValueError, http.client.HTTPException)
_METADATA = "http://%s/computeMetadata/v1/%s"
#: Where a host publishes what it is busy with.
_NAMESPACE, _KEY = "jupyter-tpu", "guard"


class GoogleError(Exception):
    """Why this host can't act: a reason (a value of errors.Reason), a message and a hint.

    unknown: Google may have done what it was asked for.
    """

    def __init__(self, reason: str, message: str, hint: str = "", *, unknown: bool = False) -> None:
        super().__init__(message)
        self.problem = {"reason": reason, "message": message, "hint": hint}
        self.unknown = unknown


def require_permission(node: str, action: str, *, reads_peers: bool = False) -> None:
    """Returns if the VM's account may do *action* with *node*; raises GoogleError if not.

    reads_peers: it must also read what its hosts publish. Where Google does not say what the
    account may do (the Resource Manager API is disabled, for example), it returns if the TPU can be
    read at least.
    """
    project, kind = node.split("/")[1::3]
    kind = "tpu.nodes" if kind == "nodes" else "compute." + kind
    needed = ["%s.%s" % (kind, verb) for verb in ("get", action)]
    if reads_peers:
        kind = kind.replace("instanceGroupManagers", "instances")
        needed.append(kind + ".getGuestAttributes")
    path, asked = "v1/projects/" + project, {"permissions": needed}
    try:
        answer = _call("cloudresourcemanager", path, "POST", ":testIamPermissions", asked)
    except GoogleError as error:
        if error.problem["reason"] != "PERMISSION":
            raise
        _describe(node)
        if reads_peers:
            published(node)
        return
    missing = [
        permission for permission in needed if permission not in answer.get("permissions", ())
    ]
    if missing:
        raise _not_allowed("The service account %s has no permission %s." % (
            _email(), " and ".join(missing)), needed[0])  # fmt: skip


def id_of(node: str) -> str:
    """Google's id of the TPU that is called *node* now; raises GoogleError."""
    body = _describe(node)
    labels = body.get("allInstancesConfig", {}).get("properties", {}).get("labels", {})
    return str(labels.get(_LABEL) or body.get("id", ""))


def _describe(node: str) -> Dict[str, Any]:
    return _call(*_service(node), "GET", "")


def _service(node: str) -> Tuple[str, str]:
    """Which of Google's APIs has it, and its path there."""
    return ("tpu", "v2/" + node) if "/locations/" in node else ("compute", node)


def carry_out(node: str, node_id: str, action: str) -> None:
    """Has Google stop or delete *node*, if it still is the one with the id *node_id*.

    Raises GoogleError.
    """
    if id_of(node) != node_id:
        raise GoogleError("CONFLICT", "This host belongs to another TPU now.")
    service, path = _service(node)
    if action == "stop":
        _call(service, path, "POST", ":stop" if service == "tpu" else "/stop", {})
    else:
        _call(service, path, "DELETE", "")


def publish(text: str) -> None:
    """Publishes what this host says to the other hosts of its TPU. Raises GoogleError."""
    request = metadata_request("instance/guest-attributes/%s/%s" % (_NAMESPACE, _KEY))
    request.data, request.method = text.encode(), "PUT"
    try:
        _open(request, direct=True)
    except urllib.error.HTTPError as error:
        raise GoogleError(
            "UNAVAILABLE",
            "The host can't publish guest attributes: %s" % _message(error),
            "Create the TPU with the metadata enable-guest-attributes=TRUE.",
        ) from None
    except _BROKEN as error:
        raise _no_metadata(error) from None


def published(node: str) -> List[str]:
    """What each host of *node* has published last, host 0 first; "" for nothing yet.

    Raises GoogleError.
    """
    service, path = _service(node)
    if service == "tpu":
        asked = {"queryPath": _NAMESPACE + "/"}
        attributes = _call(service, path, "POST", ":getGuestAttributes", asked)
        hosts = attributes.get("guestAttributes", ())
    else:
        hosts = [_of_instance(name) for name in _instances(path)]
    return [
        next((item.get("value", "") for item in host.get("queryValue", {}).get("items", ())
              if (item.get("namespace"), item.get("key")) == (_NAMESPACE, _KEY)), "")
        for host in hosts
    ]  # fmt: skip


def _instances(path: str) -> List[str]:
    """The paths of the hosts of a TPU of Compute Engine, in the order of worker numbers."""
    place, kind, _ = path.rsplit("/", 2)
    if kind == "instances":
        return [path]
    try:
        names = _open(metadata_request("instance/attributes/worker-network-endpoints"), direct=True)
    except _BROKEN as error:
        raise _no_metadata(error) from None
    return ["%s/instances/%s" % (place, name) for name in names.decode().split(",")]


def _of_instance(path: str) -> Dict[str, Any]:
    try:
        return _call("compute", path, "GET", "/getGuestAttributes?queryPath=%s/" % _NAMESPACE)
    except GoogleError as error:
        if error.problem["reason"] == "NOT_FOUND":  # it has published nothing yet
            return {}
        raise


def _call(
    service: str, path: str, method: str, verb: str, body: Optional[Dict[str, Any]] = None
) -> Dict[str, Any]:
    # An emulated TPU's host has the address of the emulator in gcloud's variables.
    variable = "CLOUDSDK_API_ENDPOINT_OVERRIDES_" + service.upper()
    usual = "https://%s.googleapis.com/%s" % (
        service,
        "compute/v1/" if service == "compute" else "",
    )
    url = os.environ.get(variable, usual) + path + verb
    headers = {"Authorization": "Bearer " + _token(), "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        return _read(request, direct=variable in os.environ)
    except urllib.error.HTTPError as error:
        message = _message(error)
        if error.code in (401, 403):
            raise _not_allowed("Google does not allow it: %s" % message, service) from None
        reason = "NOT_FOUND" if error.code == 404 else "UNAVAILABLE"
        raise GoogleError(reason, "Google answers: %s" % message) from None
    except urllib.error.URLError as error:
        message = "Google can't be reached from the host: %s" % error.reason
        raise GoogleError("UNREACHABLE", message) from None
    except _BROKEN as error:
        message = "Google's answer can't be read on the host: %r" % error
        raise GoogleError("UNREACHABLE", message, unknown=True) from None


def _token() -> str:
    return _account("token", "access_token")


def _email() -> str:
    return _account("?recursive=true", "email")


def _account(path: str, field: str) -> str:
    request = metadata_request("instance/service-accounts/default/" + path)
    try:
        return str(_read(request, direct=True)[field])
    except urllib.error.HTTPError as error:
        raise GoogleError(
            "PERMISSION",
            "The host has no service account (%d)." % error.code,
            "Create the TPU with a service account that has the role TPU Admin.",
        ) from None
    except (*_BROKEN, KeyError) as error:
        raise _no_metadata(error) from None


def _no_metadata(error: Exception) -> GoogleError:
    return GoogleError("UNREACHABLE", "The host's metadata server does not answer: %r" % error)


def metadata_request(path: str) -> urllib.request.Request:
    """Asks this VM's metadata server for *path*."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    return urllib.request.Request(_METADATA % (host, path), headers={"Metadata-Flavor": "Google"})


def _read(request: urllib.request.Request, direct: bool) -> Dict[str, Any]:
    loads = json.loads(_open(request, direct) or b"{}")
    if not isinstance(loads, dict):
        raise ValueError("no JSON object")
    return loads


def direct_opener() -> urllib.request.OpenerDirector:
    """Opens http:// without a proxy that is set for the internet."""
    # Since Python 3.12, each opener would read the host's certificates, for about 30 ms.
    nothing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=nothing)
    )


def _open(request: urllib.request.Request, direct: bool) -> bytes:
    opener = direct_opener() if direct else urllib.request.build_opener()
    with opener.open(request, timeout=REQUEST_TIMEOUT) as answer:
        content: bytes = answer.read()
    return content


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (*_BROKEN, KeyError, TypeError):
        return "%s (%d)" % (error.reason, error.code)


def _not_allowed(message: str, of: str) -> GoogleError:
    """*of*: the API, or a permission of it."""
    role = ("Compute Instance Admin (v1) (roles/compute.instanceAdmin.v1)"
            if of.startswith("compute") else "TPU Admin (roles/tpu.admin)")  # fmt: skip
    return GoogleError(
        "PERMISSION",
        message,
        "Grant the service account of the TPU the role %s, and create the TPU with the scope "
        "cloud-platform. Until then only a running Jupyter server can act." % role,
    )
