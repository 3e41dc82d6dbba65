"""Kernelspecs: one per environment of a connected TPU, in the user's Jupyter data folder."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..local_files import write_atomically
from ..on_host.agent.protocol.chosen_chips import named
from ..python_command import module_command

LOGOS = Path(__file__).parent / "logos"
PROVISIONER = "jupyter-tpu"
#: Whether a kernel that is started now uses no chips, whatever its kernelspec says.
without_chips: ContextVar[bool] = ContextVar("without_chips", default=False)
#: Bytes of unread output that the host stores, and the smallest value that may be set.
JOURNAL_LIMIT, LEAST_JOURNAL = 2 << 30, 1 << 20
#: What a user may set in a kernelspec's config. It is preserved when the kernelspec is updated.
OPTIONS = (
    "folder", "project_sync", "needs_chips", "journal_limit", "when_full", "start_timeout",
)  # fmt: skip


class KernelSpec(Struct, frozen=True, kw_only=True):
    """One kernelspec of ours."""

    name: str  # of its folder, and in Jupyter's REST
    display_name: str
    config: dict[str, Any]  # the provisioner's traits

    @property
    def chips(self) -> tuple[int, ...]:
        """The chips of the host that its kernels get; (): all."""
        return tuple(chip_numbers(self.config.get("chips") or ""))

    @property
    def hosts(self) -> int:
        """On how many hosts its kernels run each cell; 0: on one of them."""
        return int(self.config.get("hosts") or 0)

    @property
    def slices(self) -> list[str]:
        """The other TPUs that its kernels run on, as slices of one job."""
        return slice_names(self.config.get("slices") or "")

    @property
    def is_default(self) -> bool:
        """Whether its kernels have one host, with all chips."""
        return not self.chips and not self.hosts


class KernelSpecs:
    """Registers and unregisters kernelspecs.

    Parameters
    ----------
    folder: where kernelspecs are; None: ``kernels`` in the user's Jupyter data folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        if self._folder is not None:
            return self._folder
        from jupyter_core.paths import jupyter_data_dir

        return Path(jupyter_data_dir()) / "kernels"

    def register(
        self,
        *,
        project: str,
        zone: str,
        tpu: str,
        worker: int,
        environment: str,
        python_version: str,
        host_python: str,
        emulator: str | None,
        emulated: bool,
        variables: Mapping[str, str],
        chips: Sequence[int] = (),
        hosts: int = 0,
        slices: Sequence[str] = (),
        stopped: bool = False,
        of_agent: bool = False,
    ) -> tuple[str, str]:
        """Creates or updates the kernelspec of an environment. Returns its name and display name.

        variables: environment variables of its kernels. chips: which ones they get; (): all.
        hosts: on how many they run each cell (a pod kernel); 0: on *worker* only. slices: other
        TPUs of the zone whose hosts are among them.
        of_agent: whether a coding agent has created the TPU: then its kernels get only the tokens
        that are for agents.
        stopped: whether its TPU is: then no kernel can start there, and the display name says so.
        What the user has set in its config (OPTIONS) is preserved. Jupyter sees either the old
        kernelspec or the new one.
        """
        config = {
            "project": project,
            "zone": zone,
            "tpu": tpu,
            "worker": worker,
            "environment": environment,
            "host_python": host_python,
            "emulator": emulator,
            "chips": ",".join(map(str, chips)),
            "hosts": hosts,
            "slices": ",".join(slices),
            **({"of_agent": True} if of_agent else {}),
        }
        name = self._name(config)
        config |= self._set_by_user(name)
        notes = [*(["emulated"] if emulated else []), *(["stopped"] if stopped else [])]
        display_name = _display_name(config, python_version, notes)
        kernel_json = {
            "argv": _launcher(config, variables),
            "display_name": display_name,
            "language": "python",
            "interrupt_mode": "signal",
            "env": dict(variables),
            "metadata": {
                "debugger": True,
                "kernel_provisioner": {"provisioner_name": PROVISIONER, "config": config},
                "jupyter-tpu": {"emulated": emulated},
            },
        }
        target = self.folder / name
        target.mkdir(parents=True, exist_ok=True)
        for logo in LOGOS.iterdir():
            write_atomically(target / logo.name, logo.read_bytes(), mode=0o644)
        # Last: a folder is a kernelspec when it has this file.
        write_atomically(target / "kernel.json", json.dumps(kernel_json, indent=1), mode=0o644)
        return name, display_name

    def unregister(
        self,
        *,
        project: str,
        zone: str,
        tpu: str,
        environment: str | None = None,
        chips: Sequence[int] | None = None,
    ) -> None:
        """Removes the kernelspecs of a TPU, or of one of its environments, if there are any.

        chips: only the one with these; None: also those.
        """
        for spec in self.list():
            where = spec.config
            if (
                (where["project"], where["zone"]) == (project, zone)
                and tpu in (where["tpu"], *spec.slices)
                and environment in (None, where["environment"])
                and (chips is None or spec.chips == tuple(chips))
            ):
                folder = self.folder / spec.name
                # Without this file the folder is no kernelspec.
                (folder / "kernel.json").unlink(missing_ok=True)
                shutil.rmtree(folder, ignore_errors=True)

    def choices(
        self, *, project: str, zone: str, tpu: str, environment: str
    ) -> list[tuple[int, ...]]:
        """The chips that kernelspecs of this environment choose, in their order."""
        where = (project, zone, tpu, environment)
        names = ("project", "zone", "tpu", "environment")
        return sorted(
            spec.chips
            for spec in self._read()
            if spec.chips and tuple(spec.config.get(name) for name in names) == where
        )

    def list(self) -> list[KernelSpec]:
        """All our kernelspecs, sorted by name."""
        return sorted(self._read(), key=lambda spec: spec.name)

    def _read(self) -> Iterator[KernelSpec]:
        for path in self.folder.glob("*/kernel.json"):
            try:
                loads = json.loads(path.read_text(encoding="utf-8"))
                provisioner = loads["metadata"]["kernel_provisioner"]
                if provisioner["provisioner_name"] == PROVISIONER:
                    yield KernelSpec(
                        name=path.parent.name,
                        display_name=loads["display_name"],
                        config=provisioner["config"],
                    )
            except (OSError, ValueError, KeyError, TypeError):
                continue  # another program's, or damaged

    def _set_by_user(self, name: str) -> dict[str, Any]:
        config = next((spec.config for spec in self._read() if spec.name == name), {})
        return {option: config[option] for option in OPTIONS if option in config}

    def _name(self, config: dict[str, Any]) -> str:
        """A name that Jupyter accepts: letters, digits, dots, hyphens and underscores."""
        parts = ["tpu", config["zone"], config["tpu"], config["environment"]]
        if config["worker"]:
            parts.append(f"w{config['worker']}")
        if config["chips"]:
            parts.append("chip" + config["chips"].replace(",", "-"))
        if config["hosts"]:
            parts.append("all-hosts")
        if config["slices"]:
            parts.append(config["slices"].replace(",", "-"))
        name = re.sub(r"[^a-z0-9._-]", "-", "-".join(parts).lower())
        taken = {spec.name: _identity(spec.config) for spec in self._read()}
        if taken.get(name, _identity(config)) != _identity(config):
            # A TPU of another project or of an emulator has the same name.
            digest = hashlib.sha256(repr(_identity(config)).encode()).hexdigest()
            name = f"{name}-{digest[:6]}"
        return name


def chip_numbers(text: str) -> list[int]:
    """The numbers in the option ``chips``, as "0,1"."""
    return [int(chip) for chip in text.split(",") if chip]


def slice_names(text: str) -> list[str]:
    """The TPUs in the option ``slices``, as "b,c"."""
    return [name for name in text.split(",") if name]


def _identity(config: dict[str, Any]) -> tuple[Any, ...]:
    names = ("project", "zone", "tpu", "worker", "environment", "emulator")
    more = config.get("chips") or "", bool(config.get("hosts")), config.get("slices") or ""
    return (*(config.get(name) for name in names), *more)


def _display_name(config: dict[str, Any], python_version: str, notes: Sequence[str]) -> str:
    """ "Python 3.12 · my-tpu"; environment, hosts and chips are added if not the default."""
    tpus = [config["tpu"], *slice_names(config["slices"])]
    parts = ["Python " + ".".join(python_version.split(".")[:2]), " + ".join(tpus)]
    if config["worker"]:
        parts.append(f"host {config['worker']}")
    if config["environment"] != "default":
        parts.append(config["environment"])
    if config["chips"]:
        parts.append(named(chip_numbers(config["chips"])))
    if config["hosts"]:
        several = [f"{len(tpus)} slices"] if len(tpus) > 1 else []
        notes = [*several, f"all {config['hosts']} hosts", *notes]
    return " · ".join(parts) + (f" ({', '.join(notes)})" if notes else "")


def _launcher(config: dict[str, Any], variables: Mapping[str, str]) -> list[str]:
    """The command for clients without provisioners, such as VS Code."""
    options: list[str] = []
    for name, value in config.items():
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if value not in (None, "") and (name, value) != ("hosts", 0):
            options += [f"--{name.replace('_', '-')}", str(value)]
    for name, value in variables.items():
        options += ["--variable", f"{name}={value}"]
    # `env`: jupytext and others take a kernelspec that begins with their own Python for the local
    # kernel of their environment.
    launch = module_command("jupyter_tpu.kernels.launch", "-f", "{connection_file}", *options)
    return ["/usr/bin/env", *launch]
