"""Kernelspecs: one per environment of a connected TPU, in the user's Jupyter data folder."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, structs

from ..cloud import NodeName
from ..kernel_place import KernelPlace
from ..local_files import write_atomically
from ..on_host.agent.protocol.chosen_chips import named
from ..python_command import module_command
from .config import OPTIONS
from .requested import PROVISIONER

LOGOS = Path(__file__).parent / "logos"


class KernelSpec(Struct, frozen=True, kw_only=True):
    """One kernelspec of ours."""

    name: str  # of its folder, and in Jupyter's REST
    display_name: str
    place: KernelPlace
    chosen: dict[str, Any] = {}  # what the user has set in it, of `OPTIONS`


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
        place: KernelPlace,
        *,
        python_version: str,
        title: str = "",
        emulated: bool = False,
        variables: Mapping[str, str] | None = None,
        stopped: bool = False,
    ) -> tuple[str, str]:
        """Creates or updates the kernelspec of an environment. Returns its name and display name.

        title: how its display name begins; "": "Python 3.12".
        variables: environment variables of its kernels.
        stopped: whether its TPU is: then no kernel can start there, and the display name says so.
        What the user has set in its config (OPTIONS) is preserved. Jupyter sees either the old
        kernelspec or the new one.
        """
        variables, known = variables or {}, list(self._read())
        name = _name(place, {spec.name: spec.place for spec in known})
        chosen = next((spec.chosen for spec in known if spec.name == name), {})
        config = structs.asdict(place) | chosen
        if not place.of_agent:
            del config["of_agent"]
        notes = [*(["emulated"] if emulated else []), *(["stopped"] if stopped else [])]
        display_name = _display_name(place, title or _language(python_version), notes)
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
        self, tpu: NodeName, environment: str | None = None, chips: Sequence[int] | None = None
    ) -> None:
        """Removes the kernelspecs of a TPU, or of one of its environments, if there are any.

        chips: only the one with these; None: also those.
        """
        for spec in self.list():
            place = spec.place
            if (
                (place.project, place.zone) == (tpu.project, tpu.zone)
                and tpu.node in (place.tpu, *place.other_tpus)
                and environment in (None, place.environment)
                and (chips is None or place.chip_numbers == [*chips])
            ):
                folder = self.folder / spec.name
                # Without this file the folder is no kernelspec.
                (folder / "kernel.json").unlink(missing_ok=True)
                shutil.rmtree(folder, ignore_errors=True)

    def choices(self, tpu: NodeName, environment: str) -> Sequence[Sequence[int]]:
        """The chips that kernelspecs of this environment choose, in their order."""
        places = [spec.place for spec in self._read()]
        return sorted(
            place.chip_numbers
            for place in places
            if place.chips and (place.node, place.environment) == (tpu, environment)
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
                    config = provisioner["config"]
                    yield KernelSpec(
                        name=path.parent.name,
                        display_name=loads["display_name"],
                        place=convert(config, KernelPlace, strict=False),
                        chosen={option: config[option] for option in OPTIONS if option in config},
                    )
            except (OSError, ValueError, KeyError, TypeError):
                continue  # another program's, or damaged


def _name(place: KernelPlace, known: Mapping[str, KernelPlace]) -> str:
    """A name that Jupyter accepts: letters, digits, dots, hyphens and underscores. known: the
    kernelspecs that there are, by name.
    """
    parts = ["tpu", place.zone, place.tpu, place.environment]
    if place.worker:
        parts.append(f"w{place.worker}")
    if place.chips:
        parts.append("chip" + place.chips.replace(",", "-"))
    if place.hosts:
        parts.append("all-hosts")
    if place.slices:
        parts.append(place.slices.replace(",", "-"))
    name = re.sub(r"[^a-z0-9._-]", "-", "-".join(parts).lower())
    if _identity(known.get(name, place)) != _identity(place):
        # A TPU of another project or of an emulator has the same name.
        digest = hashlib.sha256(repr(_identity(place)).encode()).hexdigest()
        name = f"{name}-{digest[:6]}"
    return name


def _identity(place: KernelPlace) -> tuple[Any, ...]:
    where = (place.project, place.zone, place.tpu, place.worker, place.environment, place.emulator)
    return (*where, place.chips, bool(place.hosts), place.slices)


def _language(python_version: str) -> str:
    return "Python " + ".".join(python_version.split(".")[:2])


def _display_name(place: KernelPlace, title: str, notes: Sequence[str]) -> str:
    """ "Python 3.12 · my-tpu"; environment, hosts and chips are added if not the default."""
    tpus = [place.tpu, *place.other_tpus]
    parts = [title, " + ".join(tpus)]
    if place.worker:
        parts.append(f"host {place.worker}")
    if place.environment != "default":
        parts.append(place.environment)
    if place.chips:
        parts.append(named(place.chip_numbers))
    if place.hosts:
        several = [f"{len(tpus)} slices"] if len(tpus) > 1 else []
        notes = [*several, f"all {place.hosts} hosts", *notes]
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
