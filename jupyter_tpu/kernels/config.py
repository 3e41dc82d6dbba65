"""What a kernelspec says of its kernels, and the request by which a host starts one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from ..kernel_place import KernelPlace
from ..options import option

#: Bytes of unread output that the host stores, and the smallest value that may be set.
JOURNAL_LIMIT, LEAST_JOURNAL = 2 << 30, 1 << 20


class KernelConfig(KernelPlace, frozen=True, kw_only=True):
    """Its own fields are what a user may set: in a kernelspec, where they are preserved when it is
    updated, or in Jupyter's configuration, as traits of the provisioner.
    """

    folder: Annotated[
        str,
        option(
            "The kernel's working directory on the host. '~': that of the notebook's project, or "
            "the home folder if the project is not copied."
        ),
    ] = "~"
    project_sync: Annotated[
        str,
        option(
            "What is copied to the host before each cell, if it has changed. 'auto': the "
            "notebook's project folder; 'off': nothing; or a folder of this computer. Default: "
            "the environment variable JUPYTER_TPU_PROJECT_SYNC, else 'auto'."
        ),
    ] = ""
    needs_chips: Annotated[
        bool,
        option(
            "Do not start a kernel while another process holds the TPU's chips. False: start it "
            "anyway; JAX then fails in it."
        ),
    ] = True
    journal_limit: Annotated[
        int,
        Meta(ge=LEAST_JOURNAL),
        option("Bytes of unread output that the host stores: 16 MiB in memory, the rest on disk."),
    ] = JOURNAL_LIMIT
    when_full: Annotated[
        Literal["pause", "drop"],
        option(
            "What happens at journal_limit. 'pause': the kernel is paused until output is read, "
            "and nothing is lost. 'drop': the kernel continues and the oldest output is dropped. A "
            "line in its place reports how much."
        ),
    ] = "pause"
    start_timeout: Annotated[
        float, option("Seconds to wait for the host when a kernel starts.")
    ] = 60.0

    def start_request(
        self, variables: Mapping[str, str], notebook: str, *, without_chips: bool = False
    ) -> dict[str, Any]:
        """What the daemon is asked for. variables: environment variables of the kernel."""
        return {
            "python": self.host_python,
            "environment": self.environment,
            "tpu": self.tpu,
            "zone": self.zone,
            "worker": self.worker,
            "needs_chips": self.needs_chips and not without_chips,
            "chips": [] if without_chips else self.chip_numbers,
            **({"pod": {"slices": self.other_tpus}} if self.hosts else {}),
            "journal_limit": self.journal_limit,
            "when_full": self.when_full,
            "cwd": self.folder,
            "notebook": notebook,
            "env": dict(variables),
        }


#: What a user may set.
OPTIONS = tuple(
    name for name in KernelConfig.__struct_fields__ if name not in KernelPlace.__struct_fields__
)
