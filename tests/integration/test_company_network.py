"""Google behind a company's proxy, with the company's certificates; and who pays for the calls."""

import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shell import Shell
from company_network import CompanyNetwork

from jupyter_tpu.cloud import outbound
from jupyter_tpu.cloud.outbound import CA_VARIABLES
from jupyter_tpu.python_command import module_command

DENIED = {
    "error": {
        "code": 403,
        "message": "Caller does not have required permission to use project p.",
        "status": "PERMISSION_DENIED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "USER_PROJECT_DENIED",
                "domain": "googleapis.com",
            }
        ],
    }
}
NODE = {
    "name": "projects/p/locations/us-central1-a/nodes/mine",
    "id": 7,
    "accelerator_type": "v5litepod-4",
    "state": "READY",
}


@pytest.fixture
def network(tmp_path: Path) -> Iterator[CompanyNetwork]:
    network = CompanyNetwork(tmp_path)
    network.nodes = [NODE]
    with network.running():
        yield network


def shell(network: CompanyNetwork, folder: Path, **variables: str) -> Shell:
    """The shell of somebody with the project p, who reaches Google through the proxy only."""
    credentials = folder / "credentials.json"
    if not credentials.exists():
        network.service_account(credentials)
    made = Shell(folder, **{
        "HTTPS_PROXY": network.proxy,
        "GOOGLE_APPLICATION_CREDENTIALS": str(credentials),
        "CLOUDSDK_CORE_PROJECT": "p",
        **variables,
    })  # fmt: skip
    for name in ("https_proxy", "no_proxy", "NO_PROXY", "grpc_proxy", *CA_VARIABLES):
        if name not in variables:
            made.environment.pop(name, None)
    return made


@pytest.mark.parametrize("variable", CA_VARIABLES)
def test_a_proxy_in_capitals_and_one_variable_for_certificates_are_enough(
    network, tmp_path, variable
):
    here = shell(network, tmp_path, **{variable: str(network.authority)})
    assert [tpu["name"] for tpu in here.json("list", "--json")["tpus"]] == ["mine"]
    names = {"tpu.googleapis.com", "oauth2.googleapis.com", "compute.googleapis.com"}
    assert names <= set(network.hosts)


def test_a_certificate_that_is_not_trusted_is_named_with_what_to_set(network, tmp_path):
    here = shell(network, tmp_path)
    command = module_command("jupyter_tpu.cli", "list")  # not forked: gRPC's own lines, too
    done = subprocess.run(command, env=here.environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "is not trusted here" in done.stderr
    assert "Set SSL_CERT_FILE" in done.stderr


@pytest.mark.parametrize(
    ("login", "fields", "used"),
    [
        ("service_account", {}, None),
        ("service_account", {"GOOGLE_CLOUD_QUOTA_PROJECT": "pays"}, "pays"),
        ("person", {"quota_project_id": "pays"}, "pays"),
        ("person", {}, "p"),  # some APIs insist on one
    ],
)
def test_calls_use_the_quota_of_the_credentials_own_project(network, tmp_path, login, fields, used):
    getattr(network, login)(tmp_path / "credentials.json", **fields)
    variables = {name: value for name, value in fields.items() if name.isupper()}
    here = shell(network, tmp_path, SSL_CERT_FILE=str(network.authority), **variables)
    assert [tpu["name"] for tpu in here.json("list", "--json")["tpus"]] == ["mine"]
    calls = [headers for path, headers in network.requests if path.startswith("/compute/")]
    assert calls
    assert {headers.get("X-Goog-User-Project") for headers in calls} == {used}
    assert set(network.quota_projects) == {used if fields else None}


def test_a_list_without_the_tpus_of_an_api_that_refuses_says_so(network, tmp_path):
    network.answers["/compute/"] = (403, DENIED)
    here = shell(network, tmp_path, SSL_CERT_FILE=str(network.authority))
    listed = here.run("list")
    assert (listed.returncode, "mine" in listed.stdout) == (0, True)
    assert "This list may be incomplete: Compute Engine does not list its TPUs" in listed.stderr
    assert "roles/serviceusage.serviceUsageConsumer" in listed.stderr
    assert "Compute Engine did not list its TPUs" in here.complaint("ssh", "other")
    config = here.run("ssh-config")
    assert "This list may be incomplete" in config.stderr
    # `ssh` may be started where the variables are not set, such as by an editor.
    assert f"--set=HTTPS_PROXY={network.proxy}" in config.stdout
    assert f"--set=SSL_CERT_FILE={network.authority}" in config.stdout
    here.environment["HTTPS_PROXY"] = network.proxy.replace("//", "//me:secret@")
    assert "secret" not in here.run("ssh-config").stdout
    # A project that does not use Compute Engine has nothing there.
    off = {"reason": "SERVICE_DISABLED", "@type": "type.googleapis.com/google.rpc.ErrorInfo"}
    refusal = {"code": 403, "message": "It is off.", "details": [off]}
    network.answers["/compute/"] = (403, {"error": refusal})
    assert here.run("list").stderr == ""


def test_certificates_are_read_once_and_for_an_emulator_never(network, tmp_path, monkeypatch):
    read = []
    default = ssl.SSLContext.load_default_certs
    monkeypatch.setattr(
        ssl.SSLContext, "load_default_certs", lambda *given: read.append(given) or default(*given)
    )
    outbound.opener(emulated=True)
    assert not read
    certificates = tmp_path / "certificates.pem"
    certificates.write_bytes(network.authority.read_bytes())
    for name in CA_VARIABLES:
        monkeypatch.setenv(name, str(certificates))
    first = outbound.tls_context()
    outbound.opener(emulated=False)
    assert outbound.tls_context() is first
    assert len(read) == 1
    os.utime(certificates, (1, 1))  # another certificate was added, say
    assert outbound.tls_context() is not first
