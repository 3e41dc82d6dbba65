"""What a change of packages that was cut off leaves in an environment."""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port

from jupyter_tpu.on_host.calls.protocol import HostError
from jupyter_tpu.on_host.environments.packages import (
    REQUESTED,
    distributions,
    drop_incomplete,
    uv_pip,
)


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


@pytest.mark.parametrize(
    ("kind", "cause"),
    [("closed", "Connection refused (os error 111)"), ("untrusted", "invalid peer certificate: ")],
)
async def test_an_index_that_a_host_does_not_reach_is_not_a_wrong_package_name(
    tmp_path, monkeypatch, kind, cause
):
    uv = shutil.which("uv", path=os.path.dirname(sys.executable)) or shutil.which("uv")
    assert uv is not None
    subprocess.run([uv, "venv", "--quiet", tmp_path / "env"], check=True)
    port, scheme = free_port(), "http" if kind == "closed" else "https"
    index = f"{scheme}://127.0.0.1:{port}"
    for name, value in {
        "UV_DEFAULT_INDEX": f"{index}/simple",
        "UV_NO_CACHE": "1",
        "UV_NO_CONFIG": "1",
        "UV_HTTP_RETRIES": "0",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("UV_FIND_LINKS", "UV_EXTRA_INDEX_URL", "UV_INDEX", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def fails() -> HostError:
        with pytest.raises(HostError) as error:
            await asyncio.to_thread(uv_pip, uv, str(tmp_path / "env"), "install", input="six\n")
        return error.value

    if kind == "closed":
        error = await fails()
    else:
        keys = [tmp_path / "key.pem", tmp_path / "certificate.pem"]
        request = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout"
        subprocess.run(
            [*request.split(), keys[0], "-out", keys[1]], check=True, capture_output=True
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys[1], keys[0])
        server = await asyncio.start_server(
            lambda reader, writer: writer.close(), "127.0.0.1", port, ssl=context
        )
        async with server:
            error = await fails()
    reason, message, hint = error.payload
    assert reason == "ENVIRONMENT"
    assert message.startswith(f"The host can't download from {index}: {cause}")
    assert hint == "Check whether the host can reach it: its network, proxy and certificates."
