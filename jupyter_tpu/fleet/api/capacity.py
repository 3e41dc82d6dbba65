"""Getting TPUs: hunts, queued resources, plans, budgets, grants, prices, networks, keys, logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class HuntsAPI(Protocol):
    """Searches for a TPU over zones, types and tiers. A hunt is named by its id, or by its TPU."""

    async def list(self) -> Sequence[models.Hunt]:
        """Running and recent hunts, newest first."""

    async def quote(self, request: models.StartHunt) -> Sequence[models.HuntCandidate]:
        """What :meth:`start` would try, and what that costs; raises what it raises."""

    async def start(self, request: models.StartHunt) -> models.Hunt:
        """Starts a hunt: attempts, one after the other, until there is a TPU.

        Raises INVALID where there is nothing to try, EXISTS for the name of a TPU in one of the
        zones, and while there is a hunt for this name.
        """

    async def replacement(self, ref: str) -> models.Replacement:
        """What :meth:`replace` would create and lose, and what that costs; changes nothing."""

    async def replace(self, ref: str, options: models.ReplaceTPU | None = None) -> models.Hunt:
        """Deletes a TPU, and hunts for the same one in the same place, on other hardware.

        Raises PRICE as `create`; NOT_YOURS for another person's; KERNELS_RUNNING and JOBS_RUNNING
        unless *options* allow to end them.
        """

    async def get(self, id: str) -> models.Hunt:
        """One hunt, with its last attempts."""

    async def stop(self, id: str) -> models.Hunt:
        """Stops a hunt, and deletes what its current attempt has made.

        Waits a moment for its end; it is "stopping" until then. One that has ended is returned as
        it is.
        """


class QueuedAPI(Protocol):
    """Queued resources. One is named by its name, or by zone~name where two zones have the same."""

    async def list(self, query: models.ListQuery | None = None) -> models.QueuedResources:
        """All of the project, the oldest first, as Google has described them within 20 seconds."""

    async def create(self, request: models.QueueTPU) -> models.Operation:
        """Asks for TPUs that Google creates when there is capacity; ends when it has accepted that.

        To cancel the operation deletes what it has asked for. Raises EXISTS for a name in use, and
        PRICE for what costs something without a confirmation.
        """

    async def get(self, ref: str) -> models.QueuedResource: ...

    async def delete(
        self, ref: str, options: models.DeleteQueued | None = None
    ) -> models.Operation:
        """Deletes one. Raises CONFLICT if it has TPUs, unless *options* allow to delete them.

        Raises NOT_YOURS for another person's, as `reset` does, unless *options* have its name.
        """

    async def reset(
        self, ref: str, options: models.ResetQueued | None = None
    ) -> models.QueuedResource:
        """Puts a failed or suspended one back into the queue; CONFLICT in other states."""


class GrantsAPI(Protocol):
    """What may be used at no charge; outside of it a price has to be confirmed."""

    async def list(self) -> Sequence[models.GrantUse]:
        """The grants, those that end first first, and how much of each is in use."""

    async def add(self, request: models.Grant) -> Sequence[models.GrantUse]:
        """Adds a grant; the answer has all. Raises INVALID, and EXISTS for a name in use."""

    async def remove(self, name: str) -> None:
        """Forgets a grant. TPUs that are inside it continue, and count as charged from then on."""


class ReservationsAPI(Protocol):
    """Reserved capacity of Compute Engine, now and in calendar mode."""

    async def list(self) -> Sequence[models.ReservationView]:
        """What the project has, and what is to come."""

    async def quote(self, request: models.CreateReservation) -> models.ReservationQuote:
        """What :meth:`create` would reserve, and what that costs; reserves nothing."""

    async def create(self, request: models.CreateReservation) -> models.ReservationView:
        """Asks Google to reserve chips for some days, which are billed, used or not.

        Raises PRICE unless the cost and the name are confirmed. If Google's answer is lost, the
        error says that it is not known; the same request again is not a second one.
        """


class PricesAPI(Protocol):
    """What chips cost, by region, with the date of each price."""

    async def list(self) -> models.PriceList:
        """The prices that are used now."""

    async def refresh(self) -> models.PriceList:
        """Reads them from Google's Cloud Billing Catalog. If that fails, the earlier ones stay.

        Raises NO_CREDENTIALS, PERMISSION where the API is disabled, and what the network does.
        """


class NetworksAPI(Protocol):
    """The VPC networks of the project, and whom their firewall rules let in."""

    async def set_up(self, request: models.SetUpNetwork) -> models.NetworkSetup:
        """Creates what a network lacks: itself, a subnetwork, narrow firewall rules.

        Waits until that is done, about a minute for a new network. Doing it again continues with
        what is missing. With `dry_run` it changes nothing. Raises INVALID for a wrong address or
        zone, PERMISSION, and what the network does.
        """


class SSHKeyAPI(Protocol):
    """Our SSH key where OS Login decides who logs in, and in the project's metadata.

    All methods raise KEY_FILE, NO_CREDENTIALS, PERMISSION, and what the network does.
    """

    async def show(self) -> models.SSHKeyStatus:
        """The key, and where it is known. The Google account is asked only if OS Login is used."""

    async def add(self, request: models.AddSSHKey) -> models.SSHKeyStatus:
        """Adds the key to the Google account or to the project; the new end replaces an old one.

        With `dry_run` it changes nothing. Raises CONFLICT for a project whose hosts ignore its
        keys, and INVALID for a user name that hosts do not accept.
        """

    async def remove(self, request: models.RemoveSSHKey | None = None) -> models.SSHKeyStatus:
        """Removes the key from both. TPUs whose own metadata have it still accept it."""


class LogsAPI(Protocol):
    """Whether Cloud Logging stores what the hosts of a TPU log.

    All methods raise CONFLICT for an attached machine, PERMISSION, and what the network does.
    """

    async def show(self, ref: str) -> models.TPULogging:
        """Whether the logs are stored now, and what that costs."""

    async def set(self, ref: str, request: models.SetLogging) -> models.TPULogging:
        """From now on the logs are stored or not; those that are stored already stay."""


class BudgetsAPI(Protocol):
    """Budgets: of coding agents, and of people."""

    async def show(self) -> models.BudgetOverview:
        """The budgets, what they are spent on, and the plans that wait for a person's yes."""

    async def set(self, request: models.Budget) -> models.BudgetOverview:
        """Sets a budget, in place of an earlier one of the same name. Raises INVALID.

        Where TPUs that exist could cost more than is left of it, the newest of them end sooner:
        their guards delete them, five minutes from now at the soonest.
        """

    async def allow(self, ref: str, request: models.AllowAgents | None = None) -> models.TPU:
        """Lets coding agents run commands on a TPU that a person has created, or no longer.

        It counts for this TPU, not for a later one of the same name. They can't stop or delete it.
        """

    async def remove(self, who: str) -> None:
        """Removes a budget. Agents without one have to ask; people are not limited."""


class PlansAPI(Protocol):
    """Plans: the first of two steps to a TPU. One is valid for an hour."""

    async def make(self, request: models.PlanTPU) -> models.Plan:
        """What a TPU would cost at most; creates nothing.

        Raises what creating it raises, and PRICE for a price that is not known or too high.
        """

    async def get(self, id: str) -> models.Plan:
        """One plan. Raises NOT_FOUND."""

    async def carry_out(self, id: str, options: models.CarryOutPlan | None = None) -> models.Plan:
        """Creates what was planned, or hunts for it; the plan then has the operation's id.

        Raises BUDGET for what is outside of the budget: of an agent's plan, a person is asked.
        """

    async def answer(self, id: str, answer: models.AnswerPlan) -> models.Plan:
        """Agrees to a plan that is outside of its budget, or refuses it."""
