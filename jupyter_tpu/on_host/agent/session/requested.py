"""What the fleet asks of a kernel's session, and what is answered; see `keeper.kernel_session`."""

from .command import own_name

#: Variables that are named in an answer, and characters of a reason.
MOST_NAMED, LONGEST_WHY = 100, 300


def carry_out(command, content, cancellable):
    """The outcome of the request *content*; raises what saving or restoring raises.

    command: the kernel's `SessionCommand`. cancellable: gets what can be cancelled. The hosts of a
    pod kernel carry it out at the same time.
    """
    do, name = content["do"], content.get("name") or own_name()
    if do == "set":
        command.choose(content["setting"])
        return {"state": "set"}
    if do == "start":
        command.start_automatic()
        return {"state": "set"}
    if do == "begin":
        command.begin_automatic()
        return {"state": "set"}
    storage = command.storage_in(content.get("place"))
    session = command.kernel_session()
    if do == "restore":
        report = command.restore_from(
            storage,
            name,
            overwrite=bool(content.get("overwrite")),
            whole=bool(content.get("whole")),
        )
        return {"state": "restored", **_counted(report), "name": name, "notes": report.notes[:20]}
    command.give_up_automatic()
    session.prepare(storage)
    aside = "%s-%s" % (name, str(content["kernel"])[:8])

    def chosen():
        if content.get("overwrite"):
            session.allow_replacing(storage, name)
        elif content.get("aside") and session.is_of_another_kernel(storage, name):
            session.allow_replacing(storage, aside)
            return aside
        return name

    name, notes = session.by_first_host("name", chosen), []
    if name == aside:
        first = content.get("name") or own_name()
        notes.append("Another kernel has saved %s, so this is saved as %s." % (first, aside))
    save = session.begin(storage, name, "asked")
    nothing = session.hosts.agree(session.moment("names"), lambda: not save.names, all, first=True)
    if nothing:
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
        "hosts": report.hosts,
        **about,
    }


def _counted(report):
    missing = [[name, why[:LONGEST_WHY]] for name, why in sorted(report.reasons.items())]
    return {
        "variables": len(report.names),
        "missing": missing[:MOST_NAMED],
        "missing_count": len(missing),
    }
