"""What a person reads when a file can't be read or written."""

from __future__ import annotations

from ..errors import InvalidInput, Reason, TPUError


def file_error(code: str, path: str, message: str, host: str) -> TPUError:
    """The error for an errno's name, or LOCKED, on a host. message: the system's, for others."""
    match code:
        case "ENOENT":
            return TPUError(
                f"{path} does not exist on {host}.", Reason.NOT_FOUND, "Check its path."
            )
        case "EEXIST":
            return TPUError(
                f"{path} exists on {host}.", Reason.EXISTS, "Overwrite it, or use another name."
            )
        case "ENOTDIR":
            folder = path.rpartition("/")[0] or "/"
            return TPUError(
                f"The folder {folder} does not exist on {host}.",
                Reason.NO_FOLDER,
                "Create it there first.",
            )
        case "EISDIR":
            return InvalidInput(f"{path} is a folder on {host}.", "Name a file.")
        case "EACCES" | "EPERM" | "EROFS":
            return TPUError(f"{path} on {host}: {message}.", Reason.PERMISSION)
        case "ENOSPC" | "EDQUOT":
            return TPUError(
                f"The disk of {host} is full.",
                Reason.DISK_FULL,
                "Delete files there. `df -h` and `du -sh ~/* ~/.cache` show what uses the space.",
            )
        case "LOCKED":
            return TPUError(
                f"Another sync of {path} on {host} has not ended.",
                Reason.CONFLICT,
                "Wait for it, or end it.",
            )
    return InvalidInput(f"{path} on {host}: {message}.")
