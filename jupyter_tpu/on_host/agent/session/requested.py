"""What the fleet asks of a kernel's session, and what is answered; see `keeper.kernel_session`."""

from .command import own_name

#: Variables that are named in an answer, and characters of a reason.
MOST_NAMED, LONGEST_WHY = 100, 300


def carry_out(command, content, cancellable):
    """The outcome of the request *content*; raises what saving or restoring raises.

    command: the kernel's `SessionCommand`. cancellable: gets what can be cancelled.
    """
    do, name = content["do"], content.get("name") or own_name()
    if do == "set":
        command.choose(content["setting"])
        return {"state": "set"}
    storage = command.storage_in(content.get("place"))
    session = command.kernel_session()
    if do == "restore":
        report = command.restore_from(storage, name, overwrite=bool(content.get("overwrite")))
        return {"state": "restored", **_counted(report), "name": name, "notes": report.notes[:20]}
    notes = []
    if content.get("overwrite"):
        session.allow_replacing(storage, name)
    elif content.get("aside"):
        aside = "%s-%s" % (name, str(content["kernel"])[:8])
        if session.is_of_another_kernel(storage, name):
            notes.append("Another kernel has saved %s, so this is saved as %s." % (name, aside))
            name = aside
            session.allow_replacing(storage, name)
    save = session.begin(storage, name)
    if not save.names:
        return {"state": "empty", "name": name}
    cancellable(save)
    report = save.finish()
    fields = command.note_saved(storage, name, report)
    return {"state": "saved", **fields, "new": report.new, "notes": notes}


def saved_fields(storage, name, report, about):
    """What is said of a save, for those who can't read the storage."""
    return {
        **_counted(report),
        "name": name,
        "place": storage.url if storage.url.startswith("gs://") else "",
        "size": report.size,
        "saved": report.saved,
        **about,
    }


def _counted(report):
    missing = [[name, why[:LONGEST_WHY]] for name, why in sorted(report.reasons.items())]
    return {
        "variables": len(report.names),
        "missing": missing[:MOST_NAMED],
        "missing_count": len(missing),
    }
