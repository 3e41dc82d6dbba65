"""The kinds of operations: how they differ, and how they are called."""

from __future__ import annotations

#: Google continues with these, whoever waits for them.
NOT_CANCELLABLE = ("start", "stop", "delete", "unqueue")
#: Kinds that change nothing about the TPU: others may run at the same time.
NON_EXCLUSIVE = ("tensorboard", "profile", "sync", "copy", "share", "guard")
#: Kinds that one may begin beside: all of them end what costs money.
ALLOWED_BESIDE = {"delete": ("unqueue",), "stop": ("unqueue",)}
#: Kinds that may wait for as long as the TPU exists: nothing waits for them.
PATIENT = ("guard",)
#: Kinds that begin only if the next process can know of them: they cost money, or leave something
#: on the hosts. Others continue when the disk is full, since they may end what costs money.
SAVED = ("create", "hunt", "queue", "start", "connect")
#: Kinds that change nothing at Google.
LOCAL = ("connect", "disconnect", "detach", "environment", *NON_EXCLUSIVE)
#: And those that may take hours, and look at their TPU themselves.
UNHURRIED = (*LOCAL, "hunt")

#: What is being done to the TPU {}.
PRESENT = {
    "create": "{} is being created",
    "hunt": "{} is being created by a hunt",
    "queue": "{} is being queued",
    "unqueue": "{} is being removed from the queue",
    "start": "{} is being started",
    "stop": "{} is being stopped",
    "delete": "{} is being deleted",
    "connect": "{} is being connected",
    "disconnect": "{} is being disconnected",
    "detach": "{} is being detached",
    "environment": "The packages of {} are being changed",
}
#: What to do about one that ended with its process.
INTERRUPTED_HINTS = {
    "connect": "Connect again. It continues where it stopped.",
    "create": "If the TPU is not in the list, create it again.",
    "queue": "If it is not among the queued resources, ask for it again.",
    "unqueue": "If it is still among the queued resources, delete it again.",
    "disconnect": "Disconnect again.",
    "detach": "If the machine stays in the list, detach it again.",
    "delete": "If the TPU stays in the list, delete it again.",
    "stop": "If the TPU stays READY, stop it again.",
    "start": "If the TPU stays STOPPED, start it again.",
    "tensorboard": "Open it again. It continues where it stopped.",
    "environment": "Change its packages again.",
    "profile": "Capture it again.",
    "sync": "Sync again. What was copied is not copied again.",
    "copy": "Copy again. It continues where it stopped.",
    "share": "Share the folder again. Finished steps are skipped.",
    "guard": "Set the guard again.",
    "compile": "Send the program again.",
}
