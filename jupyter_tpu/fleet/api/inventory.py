"""Which TPUs there are in a project, whose they are, and machines that are attached."""

from __future__ import annotations

from typing import Protocol

from .. import models


class UsageAPI(Protocol):
    """Who has which TPUs."""

    async def show(self, projects: str | None = None) -> models.Usage:
        """Every TPU and queued resource of *projects* ("a,b"; None: the fleet's own).

        Does not fail if a project or a zone does not answer: ``problems`` says so. Raises INVALID
        for what is not a project's ID, and NO_PROJECT.
        """

    async def adopt(self, ref: str, request: models.AdoptTPU | None = None) -> models.UsedTPU:
        """Makes a TPU yours: its label says so from then on.

        Raises NOT_YOURS for another person's, unless *request* has its name.
        """


class AttachedAPI(Protocol):
    """Machines that are reached by SSH alone, as TPUs in the zone "attached"."""

    async def check(self, request: models.AttachMachine) -> models.MachineCheck:
        """What :meth:`attach` would connect to, and which host keys are shown. It changes nothing.

        Raises INVALID for what `ssh` does not know, and for a machine that is there twice,
        UNREACHABLE, and HOST_KEY where the user's known hosts have another key of the machine, or
        an expected key is not shown.
        """

    async def attach(self, request: models.AttachMachine) -> models.TPU:
        """Connects to machines, asks whether they have TPU chips, and remembers them as one TPU.

        Our key is added there to the keys that may log in, through the user's own `ssh`. Raises
        what :meth:`check` does, HOST_KEY for a key that was not confirmed, EXISTS for a name in
        use, PERMISSION if `ssh` can't log in without a question, NO_PYTHON, and INVALID for several
        machines that can't be the hosts of one TPU. If one of several fails, none is attached.
        """

    async def detach(
        self, ref: str, options: models.DetachMachine | None = None
    ) -> models.Operation:
        """Shuts down what we run on an attached machine, and forgets it. Its files stay.

        Raises CONFLICT for a TPU of the cloud.
        """
