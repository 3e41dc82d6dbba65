"""The emulator over the wire: Google's own clients, over gRPC and REST, find one and the same."""

import asyncio
import json
import urllib.error
import urllib.request
from email import message_from_bytes, message_from_string
from pathlib import Path
from typing import Any

import grpc
import pytest
from cloud_operations import OneToken
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport
from google.cloud.tpu_v2.services.tpu.transports.rest import TpuRestTransport

ZONE = "us-central1-a"
PARENT = f"projects/emulated/locations/{ZONE}"
NODE = tpu_v2.Node(accelerator_type="v5litepod-4", runtime_version="v2-alpha-tpuv5-lite")


def over_rest(emulator: Any, token: str | None = None) -> tpu_v2.TpuClient:
    credentials = OneToken(token or Path(emulator.state.token_file).read_text())
    host = emulator.state.rest.removeprefix("http://")
    transport = TpuRestTransport(host=host, credentials=credentials, url_scheme="http")
    return tpu_v2.TpuClient(transport=transport)


def over_grpc(emulator: Any, token: str | None = None) -> tpu_v2.TpuAsyncClient:
    token = token or Path(emulator.state.token_file).read_text()

    class Plugin(grpc.AuthMetadataPlugin):
        def __call__(self, context: Any, callback: Any) -> None:
            callback((("authorization", f"Bearer {token}"),), None)

    credentials = grpc.composite_channel_credentials(
        grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP),
        grpc.metadata_call_credentials(Plugin()),
    )
    channel = grpc.aio.secure_channel(emulator.state.grpc, credentials)
    return tpu_v2.TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))


def test_both_transports_show_the_same_node(emulator, create_tpu):
    tpu = create_tpu(labels={"team": "x"}, schedulingConfig={"spot": True})

    async def by_grpc() -> list[tpu_v2.Node]:
        client = over_grpc(emulator)
        nodes = [node async for node in await client.list_nodes(parent=f"{PARENT[:-13]}-")]
        await client.transport.close()
        return nodes

    (seen,) = [node for node in asyncio.run(by_grpc()) if node.name == tpu["name"]]
    assert seen == over_rest(emulator).get_node(name=tpu["name"])
    assert seen.scheduling_config.spot
    assert dict(seen.labels) == {"team": "x"}


def test_googles_rest_client_waits_for_an_operation_and_reads_its_failure(emulator, faults):
    client = over_rest(emulator)
    faults(kind="no-capacity", zone=ZONE, count=1)
    operation = client.create_node(parent=PARENT, node_id="by-rest", node=NODE)
    with pytest.raises(
        exceptions.ResourceExhausted, match=f'no more capacity in the zone "{ZONE}"'
    ):
        operation.result(timeout=60)
    with pytest.raises(exceptions.NotFound):
        client.get_node(name=f"{PARENT}/nodes/by-rest")


def test_refusals_are_the_same_over_both_transports(emulator, create_tpu):
    existing = create_tpu()["name"].rpartition("/")[2]
    rest = over_rest(emulator)

    async def both(error: type[Exception], text: str, **request: Any) -> None:
        grpc_client = over_grpc(emulator)
        with pytest.raises(error, match=text):
            await grpc_client.create_node(**request)
        await grpc_client.transport.close()
        with pytest.raises(error, match=text):
            rest.create_node(**request)

    def check(error: type[Exception], text: str, **changes: Any) -> None:
        request = {"parent": PARENT, "node_id": "x", "node": NODE, **changes}
        asyncio.run(both(error, text, **request))

    check(exceptions.Conflict, "already exists", node_id=existing)
    check(exceptions.BadRequest, "the node id 'X' is invalid", node_id="X")
    check(exceptions.Forbidden, "not found or access", parent=f"{PARENT[:-13]}mars")
    v4 = tpu_v2.Node(accelerator_type="v4-8", runtime_version="tpu-ubuntu2204-base")
    check(exceptions.BadRequest, "v4-8 was not found in zone us-central1-a", node=v4)


def test_what_is_not_a_fault_is_refused(emulator, faults):
    for wrong in (
        {"kind": "error", "method": "NoSuchCall"},
        {"kind": "error", "code": "NO_SUCH_CODE"},
        {"kind": "no-such-kind"},
        {"kind": "reboot"},
    ):
        with pytest.raises(Exception, match=r"^400 "):
            faults(**wrong)
    with pytest.raises(Exception, match=r"^404 "):
        emulator.request("DELETE", "/emulator/v1/faults/none")


def test_every_call_needs_the_token(emulator):
    async def by_grpc() -> None:
        client = over_grpc(emulator, token="wrong")
        with pytest.raises(exceptions.Unauthenticated):
            await client.list_nodes(parent=PARENT)
        await client.transport.close()

    asyncio.run(by_grpc())
    with pytest.raises(exceptions.Unauthorized):
        over_rest(emulator, token="wrong").list_nodes(parent=PARENT)
    for path in ("/emulator/v1/hosts", "/compute/v1/projects/emulated", "/v2/x", "/", "/nothing"):
        with pytest.raises(urllib.error.HTTPError) as it:
            urllib.request.urlopen(emulator.state.rest + path, timeout=60)
        assert it.value.code == 401
        assert json.load(it.value)["error"]["status"] == "UNAUTHENTICATED"


def test_v2alpha1_speaks_of_itself_in_its_own_words(emulator, create_tpu):
    node = create_tpu()
    seen = emulator.request("GET", f"/v2alpha1/{node['name']}")
    assert node["apiVersion"] == "V2"
    assert seen["apiVersion"] == "V2_ALPHA1"
    operation = emulator.request("POST", f"/v2alpha1/{node['name']}:stop", {})
    assert operation["metadata"]["@type"].endswith("google.cloud.tpu.v2alpha1.OperationMetadata")
    emulator.wait(operation)


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (
            "/v2/{}/nodes?nodeId=x",
            {"networkConfig": {"nope": 1}, "acceleratorTyp": "v4-8"},
            "Invalid JSON payload received. Unknown name \"nope\" at 'node.network_config': "
            'Cannot find field.\nInvalid JSON payload received. Unknown name "acceleratorTyp" '
            "at 'node': Cannot find field.",
        ),
        (
            "/v2/{}/nodes?nodeId=x&requestId=1",
            {},
            'Invalid JSON payload received. Unknown name "requestId": Cannot bind query '
            "parameter. Field 'requestId' could not be found in request message.",
        ),
        (
            "/v2alpha1/{}/queuedResources?queuedResourceId=x",
            {"tpu": {"nodeSpec": [{"multisliceParams": {}}]}},
            'Invalid JSON payload received. Unknown name "multisliceParams" at '
            "'queued_resource.tpu.node_spec[0]': Cannot find field.",
        ),
        (
            "/v2/{}/nodes?nodeId=x",
            {"acceleratorConfig": {"type": "V9"}, "tags": [5], "createTime": "now"},
            "Invalid value at 'node.accelerator_config.type' "
            '(type.googleapis.com/google.cloud.tpu.v2.AcceleratorConfig.Type), "V9"\n'
            "Invalid value at 'node.tags[0]' (TYPE_STRING), 5\n"
            "Invalid value at 'node.create_time' "
            '(type.googleapis.com/google.protobuf.Timestamp), "now"',
        ),
        (
            "/v2/{}/queuedResources?queuedResourceId=x",
            {"spot": {}, "guaranteed": {}},
            "Invalid value at 'queued_resource' (oneof), oneof field 'tier' is already set. "
            "Cannot set 'guaranteed'",
        ),
    ],
)
def test_json_that_the_service_does_not_know_is_refused_in_its_words(emulator, path, body, says):
    with pytest.raises(Exception, match=r"^400 ") as it:
        emulator.request("POST", path.format(PARENT), body)
    error = it.value.error
    assert (error["status"], error["message"]) == ("INVALID_ARGUMENT", says)
    (detail,) = error["details"]
    assert len(detail["fieldViolations"]) == says.count("\n") + 1


def test_a_body_that_is_no_json_is_a_bad_request(emulator):
    request = urllib.request.Request(
        f"{emulator.state.rest}/v2/{PARENT}/nodes?nodeId=x",
        data=b"{",
        headers={"Authorization": "Bearer " + Path(emulator.state.token_file).read_text()},
    )
    with pytest.raises(urllib.error.HTTPError) as it:
        urllib.request.urlopen(request, timeout=60)
    assert it.value.code == 400
    assert json.load(it.value)["error"]["status"] == "INVALID_ARGUMENT"


#: Several calls in one, as gcloud sends them to delete several firewall rules.
BATCH = """\
--==1==
Content-Type: application/http
MIME-Version: 1.0
Content-Transfer-Encoding: binary
Content-ID: <05a0c62d-0180-4181-add4-2a7c5bbb878d+{number}>

{line} HTTP/1.1
Content-Type: application/json
MIME-Version: 1.0
content-length: {length}
user-agent: google-cloud-sdk
accept: application/json
accept-encoding: gzip, deflate
Host: 127.0.0.1

{body}
"""


def test_a_batch_of_calls_to_compute_engine_is_answered_call_by_call(emulator):
    rules = "/compute/v1/projects/emulated/global/firewalls"
    body = json.dumps({"name": "r1", "network": "global/networks/default", "allowed": []})

    def send(*calls: tuple[str, str], token: str | None = None) -> list[tuple[str, str, dict]]:
        """The id, status and body of the answer to each call, a line and a body."""
        parts = [
            BATCH.format(number=number, line=line, body=body, length=len(body))
            for number, (line, body) in enumerate(calls)
        ]
        token = token or Path(emulator.state.token_file).read_text()
        request = urllib.request.Request(
            f"{emulator.state.rest}/batch/compute/v1",
            "".join([*parts, "--==1==--"]).encode(),
            {
                "Authorization": f"Bearer {token.strip()}",
                "Content-Type": 'multipart/mixed; boundary="==1=="',
            },
        )
        with urllib.request.urlopen(request) as answer:
            head = f"Content-Type: {answer.headers['Content-Type']}\r\n\r\n".encode()
            payloads = message_from_bytes(head + answer.read()).get_payload()
        read = []
        for part in payloads:
            status, _, rest = part.get_payload().partition("\r\n")
            content = json.loads(message_from_string(rest).get_payload())
            read.append((part["Content-ID"], status, content))
        return read

    made, missing, shown, deleted = send(
        (f"POST {rules}?alt=json", body),
        (f"DELETE {rules}/r2?alt=json", ""),
        (f"GET {rules}/r1?alt=json", ""),
        (f"DELETE {rules}/r1?alt=json", ""),
    )
    assert made[0] == "<response-05a0c62d-0180-4181-add4-2a7c5bbb878d+0>"
    assert [reply[1] for reply in (made, shown, deleted)] == ["HTTP/1.1 200 OK"] * 3
    assert (made[2]["status"], shown[2]["name"]) == ("DONE", "r1")
    assert missing[1].startswith("HTTP/1.1 404 ")
    assert "firewalls/r2" in missing[2]["error"]["message"]
    for calls, code, token in (
        ([(f"GET {rules}", "")], 401, "another"),
        ([("GET /v2/projects/emulated/locations", "")], 400, None),
        ([], 400, None),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            send(*calls, token=token)
        assert refused.value.code == code
