"""Programs that many people use, beside a local kernel: docs/notebooks/clients.md."""

import contextlib
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from typing import Any

import nbformat
import psutil
import pytest
from adoption_server import Client, CountingClient, Server
from client_environments import client_environment
from test_kernels_ssh import register
from waiting import until

from jupyter_tpu.kernels import KernelSpecs

pytestmark = pytest.mark.long


class PlainClient(CountingClient):
    """Speaks the newer protocol only, and does not count."""

    counting = ""
    read = Client.read


def copy_kernelspec(name: str, server: Server) -> None:
    shutil.copytree(KernelSpecs().folder / name, server.folder / "jupyter" / "kernels" / name)


def test_jupytext_gives_a_script_the_local_kernel_and_not_that_of_a_tpu(tmp_path):
    commands = client_environment(tmp_path / "environment", "jupytext==1.19.6", "ipykernel")
    data = tmp_path / "data"
    spec = {
        "argv": [str(commands / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Local",
        "language": "python",
    }
    (data / "kernels" / "zz-local").mkdir(parents=True)
    (data / "kernels" / "zz-local" / "kernel.json").write_text(json.dumps(spec))
    script = (
        "from pathlib import Path; from jupyter_tpu.kernel_place import KernelPlace\n"
        "from jupyter_tpu.kernels import KernelSpecs\n"
        "place = KernelPlace(project='p', zone='z', tpu='t', host_python='/python')\n"
        f"specs = KernelSpecs(Path({str(data / 'kernels')!r}))\n"
        "specs.register(place, python_version='3.12')"
    )
    subprocess.run([commands / "python", "-c", script], check=True, timeout=120)
    (tmp_path / "plain.py").write_text("print(1)\n")
    done = subprocess.run(
        [commands / "jupytext", "--set-kernel", "-", "--to", "notebook", "plain.py"],
        cwd=tmp_path,
        env={**os.environ, "JUPYTER_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    notebook = json.loads((tmp_path / "plain.ipynb").read_text())
    assert notebook["metadata"]["kernelspec"]["name"] == "zz-local"


def test_a_kernel_is_reached_through_jupyter_server_documents_before_and_after_a_restart(
    emulator, kernels_tpu, tmp_path
):
    commands = client_environment(tmp_path / "environment", "jupyter-server-documents==0.3.3")
    name = register(emulator, kernels_tpu)
    server = Server(tmp_path, emulator.environment, python=str(commands / "python"))
    copy_kernelspec(name, server)
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (server.root / "work.ipynb").write_text(json.dumps(notebook))
    with server:
        kernel = server.start_session(name)["kernel"]["id"]
        client = PlainClient(server, kernel)
        client.connect()
        assert client.run("x = 7; print(x)") == "7\n"
        server.kill()
        client.close()
        server.start()
        assert [row["kernel"]["id"] for row in server.request("GET", "/api/sessions")] == [kernel]
        client.connect()
        assert client.run("print(x)") == "7\n"
        client.close()
        server.end_sessions()
    log = server.log.read_text()
    assert log.count("Connected yroom") == 2, "cells that the server runs find the kernel"
    assert "Output may be lost when such a connection breaks." in log
    assert "has no attribute 'add_done_callback'" not in log


def test_a_variable_that_a_kernel_gateway_is_given_reaches_the_kernel(
    emulator, kernels_tpu, tmp_path
):
    commands = client_environment(
        tmp_path / "environment", "jupyter_kernel_gateway==3.0.1", "ipykernel"
    )
    name = register(emulator, kernels_tpu)
    server = Server(tmp_path, emulator.environment)
    copy_kernelspec(name, server)
    with server.log.open("ab") as log:
        server.process = subprocess.Popen(
            [
                *(commands / "python", "-m", "kernel_gateway", "--ip=127.0.0.1"),
                *(f"--port={server.port}", f"--KernelGatewayApp.auth_token={server.token}"),
                "--JupyterWebsocketPersonality.list_kernels=True",
            ],
            env=server.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(server.answers, why=server.log.read_text)
        for spec in (name, "python3"):
            body = {"name": spec, "env": {"KERNEL_MODEL": "big"}}
            kernel = server.request("POST", "/api/kernels", body)["id"]
            client = Client(server, kernel)
            client.connect()
            assert client.run("import os; print(os.environ['KERNEL_MODEL'])") == "big\n"
            client.close()
            server.request("DELETE", f"/api/kernels/{kernel}")
    finally:
        server.stop()


def test_a_page_of_voila_has_its_parameters(emulator, kernels_tpu, tmp_path):
    commands = client_environment(tmp_path / "environment", "voila==0.5.13", "ipykernel")
    server = Server(tmp_path, emulator.environment)
    name = register(emulator, kernels_tpu)
    copy_kernelspec(name, server)
    for spec in (name, "python3"):
        cell = nbformat.v4.new_code_cell("import os; print('asked:', os.environ['QUERY_STRING'])")
        notebook = nbformat.v4.new_notebook(cells=[cell])
        notebook.metadata["kernelspec"] = {"name": spec, "display_name": spec, "language": "python"}
        nbformat.write(notebook, server.root / f"{spec}.ipynb")
    with server.log.open("ab") as log:
        voila = subprocess.Popen(
            [
                *(commands / "python", "-m", "voila", server.root, "--no-browser"),
                *(f"--port={server.port}", f"--Voila.root_dir={server.root}"),
            ],
            env=server.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def page(spec: str) -> str:
        url = f"{server.url}/voila/render/{spec}.ipynb?model=big"
        try:
            with urllib.request.urlopen(url, timeout=120) as answer:
                return answer.read().decode()
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):  # it starts
                return ""
            raise

    try:
        for spec in (name, "python3"):
            shown = until(lambda spec=spec: page(spec), why=server.log.read_text)
            assert "asked: model=big" in shown
    finally:
        voila.terminate()
        voila.wait(60)


def test_a_job_of_jupyter_scheduler_has_the_files_of_its_input_folder(
    emulator, kernels_tpu, tmp_path
):
    commands = client_environment(
        tmp_path / "environment", "jupyter-scheduler==2.12.1", "jupyterlab", "ipykernel"
    )
    variables = {**emulator.environment, "JUPYTER_TPU_PROJECT_SYNC": "auto"}
    server = Server(tmp_path, variables, python=str(commands / "python"))
    name = register(emulator, kernels_tpu)
    copy_kernelspec(name, server)
    (server.root / "work").mkdir()
    (server.root / "work" / "helper.py").write_text("x = 'from here'")
    with server:
        [environment] = server.request("GET", "/scheduler/runtime_environments")
        for spec in (name, "python3"):
            cell = nbformat.v4.new_code_cell("import helper; print(helper.x)")
            kernelspec = {"name": spec, "display_name": spec, "language": "python"}
            notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernelspec})
            nbformat.write(notebook, server.root / "work" / "nb.ipynb")
            job = {
                "name": "job",
                "input_uri": "work/nb.ipynb",
                "runtime_environment_name": environment["name"],
                "package_input_folder": True,
                "output_formats": ["ipynb"],
            }
            path = f"/scheduler/jobs/{server.request('POST', '/scheduler/jobs', job)['job_id']}"

            def ended(path: str = path) -> Any:
                state = server.request("GET", path)
                # A new job is STOPPED until it begins.
                return state if state["status"] in ("COMPLETED", "FAILED") else None

            state = until(ended, 180, server.log.read_text)
            assert state["status"] == "COMPLETED", state
            server.request("DELETE", path)

        # *Stop job* kills the process that runs it. The server, which has a kernel there, ends the
        # job's kernel.
        own = server.request("POST", "/api/kernels", {"name": name})
        cell = nbformat.v4.new_code_cell("import time; time.sleep(600)")
        kernelspec = {"name": name, "display_name": name, "language": "python"}
        notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernelspec})
        nbformat.write(notebook, server.root / "work" / "nb.ipynb")
        path = f"/scheduler/jobs/{server.request('POST', '/scheduler/jobs', job)['job_id']}"
        until(lambda: kernels(emulator, kernels_tpu) == 2, 180, server.log.read_text)
        server.request("PATCH", path, {"status": "STOPPED"})
        until(lambda: kernels(emulator, kernels_tpu) == 1, 60)
        server.request("DELETE", f"/api/kernels/{own['id']}")


def test_nbmake_runs_a_notebook_on_the_kernel_that_it_names(emulator, kernels_tpu, tmp_path):
    commands = client_environment(tmp_path / "environment", "nbmake==1.5.5", "ipykernel")
    server = Server(tmp_path, emulator.environment)
    name = register(emulator, kernels_tpu)
    copy_kernelspec(name, server)
    for spec, on_tpu in ((name, True), ("python3", False)):
        cell = nbformat.v4.new_code_cell(
            f"import socket; assert socket.gethostname().startswith('t1v-n-') is {on_tpu}"
        )
        kernelspec = {"name": spec, "display_name": spec, "language": "python"}
        notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernelspec})
        nbformat.write(notebook, tmp_path / f"{spec}.ipynb")
        done = subprocess.run(
            [commands / "python", "-m", "pytest", "--nbmake", f"{spec}.ipynb"],
            cwd=tmp_path,
            env=server.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def kernels(emulator: Any, tpu: str) -> int:
    """How many kernels run on its host."""
    init = psutil.Process(emulator.hosts(tpu)[0]["init_pid"])
    found = 0
    for process in init.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found += "ipython_kernel.py" in " ".join(process.cmdline())
    return found
