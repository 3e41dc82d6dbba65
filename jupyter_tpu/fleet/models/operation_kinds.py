"""The kinds of operations: how each behaves, and what people read of it. A kind is declared here.

The runner, the command line, REST and the panel read this table; ``make types`` writes what the
frontend needs of it. What continues an operation whose process has ended registers itself with the
runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct


class OperationKind(Struct, frozen=True, kw_only=True):
    """One kind. In its texts, {} is the name of the TPU."""

    name: str
    #: Its title in each state.
    running: str
    done: str
    cancelled: str
    failed: str
    #: Why nothing else can be done to the TPU now, where that is so.
    present: str = ""
    #: What to do about one that ended with its process.
    after_interruption: str = "Check the state of the TPU."
    #: What remains when a command without a server no longer waits for it; "": it continues.
    without_server: str = ""
    #: Google continues with the others, whoever waits for them.
    cancellable: bool = True
    #: Whether no other may run on its TPU at the same time.
    exclusive: bool = True
    #: Exclusive kinds beside which it may begin all the same: all of them end what costs money.
    begins_beside: tuple[str, ...] = ()
    #: Whether it may wait for as long as its TPU exists: nothing waits for it.
    patient: bool = False
    #: Whether it begins only if the next process can know of it: it costs money, or leaves
    #: something on the hosts. Others continue when the disk is full, since they may end what costs
    #: money.
    needs_record: bool = False
    #: Whether it changes something at Google.
    at_google: bool = True
    #: Whether it begins or ends what costs money.
    costs: bool = False
    #: Who continues one whose process has ended, if it has no claim on a thing at Google: a server,
    #: while a command shows it as interrupted ("") or as running ("server"); or any process, since
    #: it ends what costs money ("any").
    continued_by: Literal["", "server", "any"] = ""

    @property
    def activity(self) -> str:
        """ "connecting {}"."""
        return self.running[0].lower() + self.running[1:]


KINDS = {
    kind.name: kind
    for kind in (
        OperationKind(
            name="create",
            costs=True,
            running="Creating {}",
            done="Created {}",
            cancelled="Creating {} was cancelled",
            failed="{} could not be created",
            present="{} is being created",
            after_interruption="If the TPU is not in the list, create it again.",
            needs_record=True,
        ),
        OperationKind(
            name="hunt",
            costs=True,
            running="Hunting for {}",
            done="Found capacity and created {}",
            cancelled="The hunt for {} was stopped",
            failed="The hunt for {} has failed",
            present="{} is being created by a hunt",
            without_server=(
                "The hunt for {0} is paused. The next Jupyter server continues it; "
                "`jupyter tpu hunt stop {0}` ends it."
            ),
            needs_record=True,
            continued_by="server",
        ),
        OperationKind(
            name="queue",
            costs=True,
            running="Asking Google for {}",
            done="{} is queued",
            cancelled="{} is not queued",
            failed="{} could not be queued",
            present="{} is being queued",
            after_interruption="If it is not among the queued resources, ask for it again.",
            needs_record=True,
        ),
        OperationKind(
            name="unqueue",
            costs=True,
            running="Deleting the queued resource {}",
            done="Deleted the queued resource {}",
            cancelled="No longer waiting for {}",
            failed="The queued resource {} could not be deleted",
            present="{} is being removed from the queue",
            after_interruption="If it is still among the queued resources, delete it again.",
            cancellable=False,
        ),
        OperationKind(
            name="start",
            costs=True,
            running="Starting {}",
            done="Started {}",
            cancelled="No longer waiting for {}",
            failed="{} could not be started",
            present="{} is being started",
            after_interruption="If the TPU stays STOPPED, start it again.",
            cancellable=False,
            needs_record=True,
        ),
        OperationKind(
            name="stop",
            costs=True,
            running="Stopping {}",
            done="Stopped {}",
            cancelled="No longer waiting for {}",
            failed="{} could not be stopped",
            present="{} is being stopped",
            after_interruption="If the TPU stays READY, stop it again.",
            begins_beside=("unqueue",),
            cancellable=False,
            continued_by="any",
        ),
        OperationKind(
            name="delete",
            costs=True,
            running="Deleting {}",
            done="Deleted {}",
            cancelled="No longer waiting for {}",
            failed="{} could not be deleted",
            present="{} is being deleted",
            after_interruption="If the TPU stays in the list, delete it again.",
            begins_beside=("unqueue",),
            cancellable=False,
        ),
        OperationKind(
            name="report",
            running="Reporting a host of {}",
            done="Reported a host of {}",
            cancelled="No longer waiting for {}",
            failed="A host of {} could not be reported",
            present="A host of {} is being reported",
            after_interruption="If no host of the TPU is restarted, report it again.",
            cancellable=False,
            needs_record=True,
        ),
        OperationKind(
            name="connect",
            running="Connecting {}",
            done="Connected {}",
            cancelled="Connecting {} was cancelled",
            failed="{} could not be connected",
            present="{} is being connected",
            after_interruption="Connect again. It continues where it stopped.",
            without_server="{0} is not connected yet. Run `jupyter tpu connect {0}` to continue.",
            needs_record=True,
            at_google=False,
        ),
        OperationKind(
            name="disconnect",
            running="Disconnecting {}",
            done="Disconnected {}",
            cancelled="Disconnecting {} was cancelled",
            failed="{} could not be disconnected",
            present="{} is being disconnected",
            after_interruption="Disconnect again.",
            at_google=False,
        ),
        OperationKind(
            name="detach",
            running="Detaching {}",
            done="Detached {}",
            cancelled="Detaching {} was cancelled",
            failed="{} could not be detached",
            present="{} is being detached",
            after_interruption="If the machine stays in the list, detach it again.",
            at_google=False,
        ),
        OperationKind(
            name="environment",
            running="Changing an environment on {}",
            done="Changed an environment on {}",
            cancelled="Changing an environment on {} was cancelled",
            failed="An environment on {} could not be changed",
            present="The packages of {} are being changed",
            after_interruption="Change its packages again.",
            without_server="Packages may be missing on {0}. Run the command again.",
            at_google=False,
        ),
        OperationKind(
            name="tensorboard",
            running="Opening TensorBoard on {}",
            done="Opened TensorBoard on {}",
            cancelled="Opening TensorBoard on {} was cancelled",
            failed="TensorBoard on {} could not be opened",
            after_interruption="Open it again. It continues where it stopped.",
            without_server="TensorBoard is not open. Run `jupyter tpu tensorboard` to continue.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="ray",
            running="Starting Ray on {}",
            done="Started Ray on {}",
            cancelled="Starting Ray on {} was cancelled",
            failed="Ray could not be started on {}",
            present="Ray is being started on {}",
            after_interruption="Start Ray again. It continues where it stopped.",
            without_server="Ray may still be starting. Run `jupyter tpu ray status {0}`.",
            at_google=False,
        ),
        OperationKind(
            name="serve",
            running="Starting a server on {}",
            done="A server on {} is healthy",
            cancelled="Starting a server on {} was cancelled",
            failed="A server on {} could not be started",
            after_interruption="`jupyter tpu serve list` shows whether it runs.",
            without_server="It may still be starting. Run `jupyter tpu serve list {0}`.",
            needs_record=True,
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="profile",
            running="Tracing {}",
            done="Traced {}",
            cancelled="Tracing {} was cancelled",
            failed="{} could not be traced",
            after_interruption="Capture it again.",
            without_server="TensorBoard is not open. Run `jupyter tpu profile` to continue.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="compile",
            running="Compiling",
            done="Compiled",
            cancelled="Compiling was cancelled",
            failed="The program could not be compiled",
            after_interruption="Send the program again.",
        ),
        OperationKind(
            name="plan",
            running="Comparing types for a step",
            done="Compared types for a step",
            cancelled="Comparing types was cancelled",
            failed="The types could not be compared",
            after_interruption="Send the program again.",
        ),
        OperationKind(
            name="sync",
            running="Syncing a folder with {}",
            done="Synced a folder with {}",
            cancelled="Syncing a folder with {} has ended",
            failed="A folder could not be synced with {}",
            after_interruption="Sync again. What was copied is not copied again.",
            without_server="Not all files are copied. Run the command again to continue.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="copy",
            running="Copying files to or from {}",
            done="Copied files to or from {}",
            cancelled="Copying files to or from {} was cancelled",
            failed="Not all files were copied to or from {}",
            after_interruption="Copy again. It continues where it stopped.",
            without_server="Not all files are copied. Run the command again to continue.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="share",
            running="Sharing a folder of {}",
            done="Shared a folder of {}",
            cancelled="Sharing a folder of {} was cancelled",
            failed="A folder of {} could not be shared",
            after_interruption="Share the folder again. Finished steps are skipped.",
            without_server="Not all hosts are done. Run the command again to continue.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="save",
            running="Saving variables of kernels on {}",
            done="Saved variables of kernels on {}",
            cancelled="Saving variables of kernels on {} was cancelled",
            failed="Not all variables of kernels on {} were saved",
            after_interruption="Save them again. The previous session is still there.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="restore",
            running="Restoring variables of a kernel on {}",
            done="Restored variables of a kernel on {}",
            cancelled="Restoring variables of a kernel on {} was cancelled",
            failed="The variables of a kernel on {} could not be restored",
            after_interruption="Check which variables the kernel has, and restore them again.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="restart",
            running="Restarting a kernel on {} with its variables",
            done="Restarted a kernel on {} with its variables",
            cancelled="Restarting a kernel on {} was cancelled",
            failed="A kernel on {} could not be restarted with its variables",
            after_interruption="If the kernel has no variables, restore its session.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="save-home",
            running="Saving home folders of {}",
            done="Saved home folders of {}",
            cancelled="Saving home folders of {} was cancelled",
            failed="The home folders of {} could not be saved",
            after_interruption="Save them again. What was saved before is still there.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="restore-home",
            running="Restoring home folders on {}",
            done="Restored home folders on {}",
            cancelled="Restoring home folders on {} was cancelled",
            failed="Not all home folders were restored on {}",
            after_interruption="Restore them again. What was copied is not copied again.",
            exclusive=False,
            at_google=False,
        ),
        OperationKind(
            name="guard",
            running="Setting the guard of {}",
            done="Set the guard of {}",
            cancelled="Setting the guard of {} was cancelled",
            failed="The guard of {} could not be set",
            after_interruption="Set the guard again.",
            without_server="{0} has no guard yet. The next Jupyter server sets it.",
            patient=True,
            exclusive=False,
            at_google=False,
            continued_by="server",
        ),
    )
}

if TYPE_CHECKING:
    KindName = str
else:
    KindName = Literal[tuple(KINDS)]
