"""Text files as people have them: with a byte order mark, and with line ends of Windows."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

#: What a file may begin with; PowerShell's ``>`` writes UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def decode_text(data: bytes, errors: str = "strict") -> str:
    """The text without its byte order mark, which decides how it is read; else it is UTF-8.

    Raises UnicodeDecodeError.
    """
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors)
    return data.decode("utf-8", errors)


def read_text(path: Path) -> str:
    """The text of a file, whose lines end in a newline. Raises OSError, UnicodeDecodeError."""
    return re.sub(r"\r\n?", "\n", decode_text(path.read_bytes()))
