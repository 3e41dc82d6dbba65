"""The wheel: what is in it, and that it works where there is no Node.js."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def environment_without_node(home: Path) -> dict[str, str]:
    """Programs of this Python and of the system only; nothing called node or npm among them."""
    tools = home / "tools"
    tools.mkdir()
    for program in ("git", "sh", "env"):
        found = subprocess.run(["which", program], capture_output=True, text=True).stdout.strip()
        if found:
            (tools / program).symlink_to(found)
    keep = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "UV_", "SSL_"))}
    return {**keep, "PATH": str(tools), "HOME": str(home), "JUPYTER_DATA_DIR": str(home / "data")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / "jupyter_tpu/labextension/package.json").is_file():
        pytest.skip("the frontend is not built: run `make setup`")
    home = tmp_path_factory.mktemp("wheel")
    out = home / "dist"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [uv, "build", "--quiet", "--wheel", "--out-dir", out, ROOT],
        env=environment_without_node(home) | {"UV_CACHE_DIR": str(home / "uv-cache")},
        check=True,
    )
    [built] = out.glob("*.whl")
    return built


def test_the_wheel_carries_the_built_frontend_once_and_no_development_files(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    style = [n for n in names if n.endswith("labextensions/jupyter-tpu/static/style.js")]
    assert len(style) == 1
    assert any(n.endswith("jupyter_server_config.d/jupyter_tpu.json") for n in names)
    assert any(n.endswith("LICENSE") for n in names)
    assert not [n for n in names if n.startswith(("tests/", "labextension/", "node_modules/"))]
    assert wheel.stat().st_size < 2_000_000


def test_the_installed_wheel_brings_both_extensions_without_node(
    wheel: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    python = venv / "bin/python"
    subprocess.run([uv, "pip", "install", "-q", "--no-deps", "-p", python, wheel], check=True)
    # The dependencies are those of the environment that runs the tests, behind the wheel itself.
    [site] = venv.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    environment = environment_without_node(tmp_path)

    where = subprocess.run(
        [python, "-c", "import jupyter_tpu; print(jupyter_tpu.__file__)"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert where.startswith(str(venv))
    listed = {
        what: subprocess.run(
            [python, "-c", f"from {module} import main; main()", "list"],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        for what, module in {
            "server": "jupyter_server.extension.serverextension",
            "frontend": "jupyterlab.labextensions",
        }.items()
    }
    for what, result in listed.items():
        text = result.stdout + result.stderr
        line = next((x for x in text.splitlines() if "jupyter_tpu" in x or "jupyter-tpu" in x), "")
        assert "enabled" in line.lower(), f"{what}: {text}"
        assert "ok" in text.lower()
