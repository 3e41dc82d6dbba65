"""``make lab``: JupyterLab with the extension and an emulated Cloud TPU, for trying and developing.

Everything it writes stays in .lab/ under the checkout: settings, kernels, keys, the emulator's
TPUs. Only the list of running servers is the user's own, so that ``jupyter tpu …`` in another
terminal finds this one. The notebooks are copies of examples/, so that running them changes
nothing in the checkout.

The terminal gets the URL, and errors. The rest of Jupyter's log is in .lab/lab.log, or with --debug
on the terminal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import shutil
import signal
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="JupyterLab with an emulated Cloud TPU.")
    parser.add_argument("--port", type=int, default=8888, help="the first port to try")
    parser.add_argument("--browser", action="store_true", help="open a browser")
    parser.add_argument("--no-browser", dest="browser", action="store_false")
    parser.add_argument("--folder", type=Path, default=CHECKOUT / ".lab", help="where it keeps all")
    parser.add_argument("--debug", action="store_true", help="show the whole log")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="options for JupyterLab, after --")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    _use_folder(folder)
    notebooks = _copy_examples(folder)
    options = [
        f"--ServerApp.port={chosen.port}",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.open_browser={chosen.browser}",
        f"--ServerApp.root_dir={notebooks}",
        "--ServerApp.jpserver_extensions={'jupyter_tpu': True, 'jupyterlab': True}",
        "--ServerApp.answer_yes=True",  # one Ctrl-C is enough
        "--JupyterTPU.emulator=True",
        *(["--allow-root"] if os.geteuid() == 0 else []),
        *(["--debug"] if chosen.debug else _log_options(folder / "lab.log")),
        *(word for word in chosen.rest if word != "--"),
    ]
    _name_missing_sshd()
    print("Starting JupyterLab with an emulated Cloud TPU …", flush=True)
    _serve(options, folder)


def _name_missing_sshd() -> None:
    """Without OpenSSH's server the emulator has its fallback: a TPU of one host."""
    from jupyter_tpu.emulator.hosts.etc import sshd_program

    if sys.platform == "linux" and sshd_program() is None:
        print("OpenSSH's server was not found, so emulated TPUs have only one host.")
        print("On Debian and Ubuntu: sudo apt install openssh-server", flush=True)


def _use_folder(folder: Path) -> None:
    """Points Jupyter at *folder*, and away from the user's own settings and cloud."""
    from jupyter_core.paths import jupyter_runtime_dir

    os.environ["JUPYTER_RUNTIME_DIR"] = jupyter_runtime_dir()
    os.environ["JUPYTER_CONFIG_DIR"] = str(folder / "config")
    os.environ["JUPYTER_DATA_DIR"] = str(folder / "data")
    os.environ["JUPYTERLAB_SETTINGS_DIR"] = str(folder / "settings")
    os.environ["JUPYTERLAB_WORKSPACES_DIR"] = str(folder / "workspaces")
    os.environ["JUPYTER_TPU_DATA_DIR"] = str(folder / "tpu")
    os.environ.pop("JUPYTER_TPU_EMULATOR", None)
    folder.mkdir(parents=True, exist_ok=True)
    # JupyterLab asks about news in front of everything at its first start.
    setting = folder / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    if not setting.exists():
        setting.parent.mkdir(parents=True)
        setting.write_text(json.dumps({"fetchNews": "false"}))


def _copy_examples(folder: Path) -> Path:
    """Copies examples/, renewing copies that were not changed; changed ones are the user's."""
    copies = folder / "notebooks"
    record = folder / "copied.json"
    copied = json.loads(record.read_text()) if record.exists() else {}
    for source in sorted((CHECKOUT / "examples").rglob("*")):
        if not source.is_file() or ".ipynb_checkpoints" in source.parts:
            continue
        name = source.relative_to(CHECKOUT / "examples")
        copy = copies / name
        if not copy.exists() or copied.get(str(name)) == _digest(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            copied[str(name)] = _digest(copy)
    copies.mkdir(exist_ok=True)
    record.write_text(json.dumps(copied, indent=2))
    return copies


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Problems(logging.Filter):
    """Passes errors. Jupyter's notices at its start and end are critical to it, too."""

    NOTICES = ("start_app", "_confirm_exit", "_signal_stop")

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR and record.funcName not in self.NOTICES


def _log_options(file: Path) -> list[str]:
    """Everything goes to *file*, and only what is wrong to the terminal."""
    file.unlink(missing_ok=True)
    both = {"handlers": ["console", "file"]}
    config = {
        "filters": {"problems": {"()": f"{__name__}.{Problems.__name__}"}},
        "handlers": {
            "console": {"filters": ["problems"]},
            "file": {
                "class": "logging.FileHandler",
                "filename": str(file),
                "formatter": "console",
                "level": "INFO",
            },
        },
        "loggers": {"ServerApp": both, "LabApp": both},
    }
    return [f"--Application.logging_config={config}"]


def _serve(options: list[str], folder: Path) -> None:
    """Runs JupyterLab in this process, so that signals need no passing on, until it is stopped."""
    from jupyterlab.labapp import LabApp

    server = LabApp.initialize_server(argv=options)
    url = f"http://127.0.0.1:{server.port}{server.base_url}lab"
    token = server.identity_provider.token

    def say() -> None:
        whole = f"{url}?token={token}" if token else url
        print(f"Open {whole}")
        print(f"Ctrl-C ends it. Its TPUs, settings and log are kept in {folder}", flush=True)

    # Jupyter Server does not end its extensions at a Ctrl-C that comes without a terminal.
    signal.signal(signal.SIGINT, lambda *_: server.stop(from_signal=True))
    # After what the server itself says at its start, which is said before the loop runs.
    server.io_loop.add_callback(say)
    server.start()


if __name__ == "__main__":
    main()
