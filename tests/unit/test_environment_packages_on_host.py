"""What a change of packages that was cut off leaves in an environment."""

import asyncio
import os
import re
import shutil
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from ports import free_port

from jupyter_tpu.on_host.calls.protocol import HostError
from jupyter_tpu.on_host.environments.packages import (
    REQUESTED,
    distributions,
    drop_incomplete,
    uv_pip,
)
from jupyter_tpu.on_host.environments.uv import uv_error


def install(site: Path, name: str, *missing: str) -> Path:
    """A package, without some of its files; returns the folder of its metadata."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    files = {
        f"{name}.py": "",
        f"{info.name}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info.name}/RECORD", "gone.pyc"])
    for path, text in {**files, f"{info.name}/RECORD": record}.items():
        if os.path.basename(path) not in missing:
            (site / path).write_text(text)
    return info


def test_packages_that_were_installed_by_half_since_the_last_change_are_forgotten(tmp_path):
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    before = install(site, "changed_by_hand", "changed_by_hand.py")
    (tmp_path / REQUESTED).write_text("{}")
    os.utime(before, (0, 0))
    install(site, "whole")
    install(site, "no_metadata", "METADATA")
    install(site, "no_list", "RECORD")
    install(site, "no_module", "no_module.py")
    assert sorted(drop_incomplete(str(tmp_path))) == ["no-list", "no-metadata", "no-module"]
    assert set(distributions(str(tmp_path))) == {"changed-by-hand", "whole"}
    assert drop_incomplete(str(tmp_path)) == []


def write_certificate(key_file: Path, certificate_file: Path, starts: timedelta) -> None:
    """A certificate of this machine's loopback address, for ten days that begin so much later."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    begin = datetime.now(UTC) + starts
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=10))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    certificate_file.write_bytes(certificate.public_bytes(pem))
    form = serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("closed", "Connection refused (os error 111)"),
        ("untrusted", "invalid peer certificate: "),
        ("early", ""),  # for a host whose clock is a year back
    ],
)
async def test_an_index_that_a_host_does_not_reach_is_not_a_wrong_package_name(
    tmp_path, monkeypatch, kind, cause
):
    uv = shutil.which("uv", path=os.path.dirname(sys.executable)) or shutil.which("uv")
    assert uv is not None
    subprocess.run([uv, "venv", "--quiet", tmp_path / "env"], check=True)
    port, scheme = free_port(), "http" if kind == "closed" else "https"
    index = f"{scheme}://127.0.0.1:{port}"
    keys = [tmp_path / "key.pem", tmp_path / "certificate.pem"]
    for name, value in {
        "UV_DEFAULT_INDEX": f"{index}/simple",
        "UV_NO_CACHE": "1",
        "UV_NO_CONFIG": "1",
        "UV_HTTP_RETRIES": "0",
        **({"SSL_CERT_FILE": str(keys[1])} if kind == "early" else {}),
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("UV_FIND_LINKS", "UV_EXTRA_INDEX_URL", "UV_INDEX", "HTTPS_PROXY", "HTTP_PROXY",
                 "SSL_CERT_DIR", "PIP_CERT", "REQUESTS_CA_BUNDLE"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)

    async def fails() -> HostError:
        with pytest.raises(HostError) as error:
            await asyncio.to_thread(uv_pip, uv, str(tmp_path / "env"), "install", input="six\n")
        return error.value

    if kind == "closed":
        error = await fails()
    else:
        write_certificate(*keys, starts=timedelta(days=365 if kind == "early" else -1))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys[1], keys[0])
        server = await asyncio.start_server(
            lambda reader, writer: writer.close(), "127.0.0.1", port, ssl=context
        )
        async with server:
            error = await fails()
    reason, message, hint = error.payload
    assert reason == "ENVIRONMENT"
    if kind == "early":
        assert re.fullmatch(
            r"The host's clock says \d{4}-\d\d-\d\d \d\d:\d\d UTC, when the certificate of "
            f"{index} is not valid.",
            message,
        )
        assert "sudo timedatectl set-ntp true" in hint
        return
    assert message.startswith(f"The host can't download from {index}: {cause}")
    assert hint == "Check whether the host can reach it: its network, proxy and certificates."


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (  # uv 0.13
            "  cause: Because jax>=0.12.0 depends on numpy>=2.2 and you require numpy<2, we can "
            "conclude that your requirements and jax>=0.12.0 are incompatible.\n"
            "         And because you require jax>=0.12, we can conclude that your requirements "
            "are unsatisfiable.",
            "No versions of the packages fit together: jax>=0.12.0 depends on numpy>=2.2 and you "
            "require numpy<2; you require jax>=0.12.",
        ),
        (  # uv 0.4
            "  × No solution found when resolving dependencies:\n"
            "  ╰─▶ Because you require jax==0.12.0.1 and jax<0.11, we can\n"
            "      conclude that your requirements are unsatisfiable.",
            "No versions of the packages fit together: you require jax==0.12.0.1 and jax<0.11.",
        ),
        (
            "  cause: Because jaxlib==0.4.30 has no wheels with a matching Python ABI tag (e.g., "
            "`cp313`) and you require jaxlib==0.4.30, we can conclude that …",
            "jaxlib==0.4.30 has no wheel for this environment's Python (cp313).",
        ),
        (
            "  cause: Because the current Python version (3.11.7) does not satisfy Python>=3.12 "
            "and jax==0.12.0.1 depends on Python>=3.12, we can conclude that …\n"
            "         And because only jax<=0.12.0.1 is available and you require jax==0.12.0.1, "
            "we can conclude that …",
            "jax==0.12.0.1 needs Python>=3.12, but this environment has Python 3.11.7.",
        ),
    ],
)
def test_versions_that_exclude_each_other_are_named_and_no_names_are_blamed(said, message):
    error = uv_error("Installing packages", said.splitlines())
    assert error.payload[:2] == ["PACKAGE", message]
    assert "names" not in error.payload[2]


def test_a_python_that_uv_cant_download_is_no_matter_of_packages():
    said = (
        "error: Request failed after 3 retries in 7.8s\n  cause: Failed to download `https://github."
        "com/astral-sh/python-build-standalone/releases/download/20261110/cpython-3.14.10.tar.gz`"
    )
    assert uv_error("Creating it", said.splitlines()).payload[0] == "NO_SUCH_PYTHON"
