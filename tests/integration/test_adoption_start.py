"""A server's start with kernels to adopt, without hosts."""

import threading
from typing import Any

from jupyter_tpu.kernels import persistence
from jupyter_tpu.server.adoption import adoption as adoption_module
from jupyter_tpu.server.adoption.adoption import Adoption
from jupyter_tpu.server.adoption.kernel_folder import KernelFolder
from jupyter_tpu.server.app import JupyterTPU

pytest_plugins = ["pytest_jupyter.jupyter_server"]


def test_much_that_is_to_be_loaded_does_not_hold_up_the_port(jp_serverapp, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    (tmp_path / "kernels" / "k").mkdir(parents=True)
    loaded = threading.Event()

    def load(root_dir: str) -> list[Any]:
        loaded.wait(30)
        return []

    monkeypatch.setattr(KernelFolder, "find_unowned", load)
    monkeypatch.setattr(adoption_module, "BEFORE_PORT", 0.05)
    monkeypatch.setattr(persistence, "current", None)
    adoption = Adoption(jp_serverapp, lambda *_: None)
    adoption.start()
    assert adoption.closed, "requests for its lists wait"
    assert adoption._adopting is not None
    loaded.set()
    loop = jp_serverapp.io_loop.asyncio_loop
    loop.run_until_complete(adoption._adopting)
    assert not adoption.closed
    loop.run_until_complete(adoption.stop())


def test_a_server_whose_kernels_are_a_gateways_adopts_none(jp_serverapp, monkeypatch):
    extension = JupyterTPU()
    extension.serverapp = jp_serverapp
    assert extension._adopts_kernels
    monkeypatch.setattr(jp_serverapp.gateway_config, "url", "http://127.0.0.1:9")
    assert not extension._adopts_kernels
