"""Which Python and which Jupyter server the extension uses, in a real VS Code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from code_server import (
    ROOT,
    CodeServer,
    Window,
    comes,
    end_servers,
    jupyter_servers,
    jupyter_variables,
    needs_jupyter,
    notebook,
    server_of,
)
from playwright.sync_api import BrowserContext, expect
from ports import free_port
from waiting import until

UV = Path(sys.executable).with_name("uv")
NO_SECRETS = """
const get = Storage.prototype.getItem;
Storage.prototype.getItem = function (key) {
  if (key === 'secrets.provider') throw new Error('no secrets here');
  return get.call(this, key);
};
"""


def test_a_python_without_jupyter_tpu_says_what_to_install(
    start_vscode: Callable[..., CodeServer], open_window: Callable[..., Window], tmp_path: Path
) -> None:
    environment = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    server = start_vscode({"jupyterTpu.python": str(python)})
    window = open_window(server)  # without a workspace
    expect(window.view).to_contain_text(f"jupyter-tpu is not installed in {python}.")
    expect(window.row("Install It")).to_be_visible()
    window.command("TPU: Open Terminal on Host")
    expect(window.toasts.first).to_contain_text(f"{python} -m pip install jupyter-tpu")


def environment_without_jupyter_tpu(folder: Path) -> Path:
    """The Python of an environment that has what jupyter-tpu needs, but not jupyter-tpu itself."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    import jupyter_server

    for path in Path(jupyter_server.__file__).parents[1].iterdir():
        if "jupyter_tpu" not in path.name and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "venv", folder / "new"], check=True)
    [site] = (folder / "new").glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(f"{packages}\n")
    return folder / "new" / "bin" / "python"


def test_install_puts_jupyter_tpu_into_the_python_and_uses_it(
    start_vscode: Callable[..., CodeServer], open_window: Callable[..., Window], tmp_path: Path
) -> None:
    """By pip, from a folder in place of a registry."""
    python = environment_without_jupyter_tpu(tmp_path)
    wheels = tmp_path / "wheels"
    build = f"from hatchling.build import build_editable; build_editable({str(wheels)!r})"
    backend = "hatchling,hatch-nodejs-version,editables"
    run = [UV, "run", "--quiet", "--no-project", "--with", backend, "python", "-c", build]
    subprocess.run(run, cwd=ROOT, check=True)
    folder = tmp_path / "jupyter"
    folder.mkdir()
    own = jupyter_variables(folder)
    server = start_vscode(
        {"jupyterTpu.python": str(python)},
        variables={
            **own,
            "PIP_FIND_LINKS": str(wheels),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
        },
    )
    window = open_window(server, server.workspace)
    expect(window.view).to_contain_text(f"jupyter-tpu is not installed in {python}.")
    window.row("Install It").click()
    expect(window.view).to_contain_text("127.0.0.1:", timeout=200_000)
    [started] = jupyter_servers(own)
    assert Path(f"/proc/{started.pid}/cmdline").read_bytes().startswith(bytes(python))
    end_servers(own)


# ---- a server elsewhere --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def without_python(start_vscode: Callable[..., CodeServer]) -> CodeServer:
    """VS Code whose Python is not there, so that the server must be elsewhere."""
    return start_vscode({"jupyterTpu.python": "/nowhere/python"})


def use_own(window: Window) -> None:
    """Uses the server of the window's Python again."""
    window.command("TPU: Use Another Jupyter Server")
    window.enter("Use Another Jupyter Server", "")
    expect(window.view).to_contain_text("/nowhere/python can’t be run")


def use(window: Window, url: str, token: str) -> None:
    window.command("TPU: Use Another Jupyter Server")
    window.enter("Use Another Jupyter Server", url)
    window.enter("Token of", token)


def test_a_server_elsewhere_is_used_by_its_token_also_after_a_reload(
    without_python: CodeServer,
    open_window: Callable[..., Window],
    variables: dict[str, str],
    tpu: str,
) -> None:
    url, token = server_of(variables)
    server = without_python
    window = open_window(server, server.workspace)
    expect(window.view).to_contain_text("/nowhere/python can’t be run")
    use(window, f"http://127.0.0.1:{free_port()}/", token)
    expect(window.toasts.first).to_contain_text("The Jupyter server is not responding.")
    use(window, url, "not-the-token")
    expect(window.toasts.filter(has_text="does not accept this token")).to_be_visible()
    expect(window.view).to_contain_text("/nowhere/python can’t be run")
    use(window, f"{url}lab", token)
    expect(window.row(tpu)).to_contain_text("Connected")
    window.open(server.workspace)
    expect(window.row(tpu)).to_contain_text("Connected")
    window.expand(tpu)
    window.act("Host 0", "Open Terminal on Host")
    expect(window.toasts.first).to_contain_text("works with a Jupyter server on this computer")
    files = [path for path in server.workspace.parent.rglob("*") if path.is_file()]
    secret = token.encode()
    assert [path for path in files if secret in path.read_bytes()] == []
    use_own(window)


def test_without_secret_storage_the_token_is_kept_until_the_window_closes(
    without_python: CodeServer,
    open_window: Callable[..., Window],
    context: BrowserContext,
    variables: dict[str, str],
    tpu: str,
) -> None:
    """A browser that lets no page store secrets."""
    context.add_init_script(NO_SECRETS)
    url, token = server_of(variables)
    window = open_window(without_python, without_python.workspace)
    use(window, url, token)
    expect(window.toasts.first).to_contain_text("the token is kept until you close this window")
    expect(window.row(tpu)).to_contain_text("Connected")
    window.open(without_python.workspace)
    expect(window.view).to_contain_text(f"The token of {url} is not stored.")
    expect(window.view).to_contain_text("TPU: Use Another Jupyter Server")
    use_own(window)


def test_a_python_that_is_not_there_is_named(
    without_python: CodeServer, open_window: Callable[..., Window]
) -> None:
    """The last one with this VS Code: it then has another Python."""
    window = open_window(without_python, without_python.workspace)
    expect(window.view).to_contain_text("/nowhere/python can’t be run")
    window.row("Choose Another Python").click()
    window.asked("Python with jupyter-tpu")
    on_path = shutil.which("python3", path="/usr/bin:/bin")
    if on_path is not None:
        expect(window.picker.get_by_role("option", name=on_path)).to_be_visible()
    window.pick("Python with jupyter-tpu", "Enter a Path…")
    expect(window.picker.locator("input").last).to_have_value("/nowhere/python")
    window.enter("Python with jupyter-tpu", sys.executable)
    expect(window.view).not_to_contain_text("/nowhere/python")
    expect(window.view).not_to_contain_text("Looking for the Jupyter server")
    expect(window.row("Choose Another Python")).to_have_count(0)


# ---- a server that ends --------------------------------------------------------------------------


def test_a_server_that_ends_is_noticed_and_another_one_is_started(
    window: Window, tpu: str, variables: dict[str, str]
) -> None:
    expect(window.row(tpu)).to_contain_text("Connected")
    [server] = jupyter_servers(variables)
    os.kill(server.pid, signal.SIGTERM)
    window.view.get_by_role("button", name="Start Jupyter Server").click(timeout=120_000)
    expect(window.row(tpu)).to_contain_text("Connected")
    [other] = jupyter_servers(variables)
    assert other.pid != server.pid


@needs_jupyter
@pytest.mark.parametrize("moves", [True, False])
def test_a_notebook_whose_server_ended_runs_with_the_next_one(
    window: Window, tpu: str, variables: dict[str, str], moves: bool
) -> None:
    """At the address of the ended one by itself, else after the window is reloaded."""
    path = window.server.workspace / f"ends-{moves}.ipynb"
    notebook(path, "import os; print('process', os.getpid())")
    window.open_file(path.name)
    window.select_kernel("Cloud TPUs", f"· {tpu}")
    kernel = window.page.locator(".kernel-label:visible")
    expect(kernel).to_contain_text(tpu)
    window.run_all()
    expect(window.output()).to_contain_text("process")
    [server] = jupyter_servers(variables)
    port = free_port() if moves else urlsplit(server.url).port
    config = Path(variables["JUPYTER_CONFIG_DIR"]) / "jupyter_server_config.py"
    config.write_text(f"c.ServerApp.port = {port}")
    os.kill(server.pid, signal.SIGTERM)
    window.view.get_by_role("button", name="Start Jupyter Server").click(timeout=120_000)
    expect(window.row(tpu)).to_contain_text("Connected")
    config.unlink()
    window.page.get_by_role("button", name="Clear All Outputs").click()
    expect(window.output()).not_to_contain_text("process")
    if moves:
        toast = window.toasts.filter(has_text="The Jupyter server has another address now")
        toast.get_by_role("button", name="Reload Window").click()
        expect(toast).to_have_count(0)
        expect(kernel).to_contain_text(tpu)

    def ran() -> bool:
        """Not while the Jupyter extension takes leave of the kernel that it had."""
        if window.page.locator(".codicon-notebook-execute-all:visible").count() > 0:
            window.run_all()
        return comes(window.output().get_by_text("process"))

    until(ran, 100, window.page.locator(".notebook-editor").inner_text)
    [other] = jupyter_servers(variables)
    assert (other.url != server.url) == moves
    assert other.pid != server.pid
