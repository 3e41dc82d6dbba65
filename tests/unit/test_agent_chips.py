"""What is said of chips before a kernel starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_tpu.agent.daemon import daemon as daemon_module
from jupyter_tpu.agent.daemon.daemon import Daemon, OperationError


@pytest.mark.asyncio
async def test_a_kernel_is_not_started_on_a_host_whose_chips_have_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "chips", lambda: ["v5e"])
    monkeypatch.setattr(daemon_module, "chip_devices", list)
    request = {
        "id": "1",
        "launch": "1",
        "python": "/bin/sh",
        "key": "",
        "secret": "",
        "tpu": "my-tpu",
        "needs_chips": True,
    }
    with pytest.raises(OperationError) as refused:
        await Daemon(str(tmp_path), "1", "")._start_kernel(request)
    answer = refused.value.answer
    assert answer["reason"] == "CPU_FALLBACK"
    assert answer["message"].startswith("The chips of my-tpu have no device files")
    assert "jupyter tpu doctor my-tpu" in answer["hint"]
    # Whoever wants the CPU gets it.
    with pytest.raises(OperationError, match="could not be started"):
        await Daemon(str(tmp_path), "1", "")._start_kernel(
            {**request, "env": {"JAX_PLATFORMS": "cpu"}}
        )
