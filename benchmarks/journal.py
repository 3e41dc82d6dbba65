"""Processor time of a kernel's journal on this machine, beside the same in SQLite.

Messages are appended, read from the start in pieces, and removed (the journal keeps its last file),
as a server does. Both ways have checksums and survive the end of the process, not that of the
machine: the journal writes each record to its file and never syncs; SQLite is in WAL mode with
synchronous=OFF and one transaction per message, or per group of messages.

    python benchmarks/journal.py [--rounds N] [--messages N]
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _results import summaries, write

from jupyter_tpu.on_host.agent.protocol import frames
from jupyter_tpu.server.adoption.journal_file import MESSAGE, JournalFile, JournalRecord

SIZES = (200, 5_000)  # bytes of a message
GROUPS = (1, 32)  # messages in a transaction of SQLite
PIECE = 1 << 20  # bytes of one read
JOURNAL = "journal"
TABLE = """
CREATE TABLE journal (
  number INTEGER PRIMARY KEY, kind INTEGER, channel INTEGER, last INTEGER, checksum INTEGER,
  data BLOB
)
"""
Parts = list[bytes]


class Figures(dict[str, list[float]]):
    """µs of processor time per message."""

    def note(self, what: str, spent: float, messages: int) -> None:
        self.setdefault(what, []).append(spent / messages * 1e6)


def cpu(work: Callable[[], None]) -> float:
    """Seconds of processor time, the system's included."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def journal(folder: Path, messages: list[Parts], figures: Figures) -> None:
    folder.mkdir()
    file = JournalFile(folder)

    def append() -> None:
        for number, parts in enumerate(messages):
            file.append(MESSAGE, 1, number, parts)

    def read() -> None:
        reader, count = file.reader(1), 0
        while piece := file.read(reader, PIECE):
            count += len(piece)
        assert count == len(messages)

    figures.note("append", cpu(append), len(messages))
    figures.note("read", cpu(read), len(messages))
    figures.note("remove", cpu(lambda: file.release(file.next)), len(messages))
    file.close()


def sqlite(folder: Path, messages: list[Parts], group: int, figures: Figures) -> None:
    folder.mkdir()
    base = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=OFF")
    base.execute(TABLE)

    def append() -> None:
        for begin in range(0, len(messages), group):
            base.execute("BEGIN IMMEDIATE")
            for number, parts in enumerate(messages[begin : begin + group], begin):
                data = frames.join_parts(parts)
                base.execute(
                    "INSERT INTO journal VALUES (NULL, ?, ?, ?, ?, ?)",
                    (MESSAGE, 1, number, zlib.crc32(data), data),
                )
            base.execute("COMMIT")

    def read() -> None:
        limit = max(1, PIECE // len(b"".join(messages[0])))
        seen = 0
        while rows := base.execute(
            "SELECT number, kind, channel, last, data FROM journal WHERE number > ?"
            " ORDER BY number LIMIT ?",
            (seen, limit),
        ).fetchall():
            for number, kind, channel, last, data in rows:
                JournalRecord(number, kind, channel, last, frames.split_parts(data), len(data))
            seen = rows[-1][0]
        assert seen == len(messages)

    figures.note("append", cpu(append), len(messages))

    def remove() -> None:
        base.execute("DELETE FROM journal WHERE number <= ?", (len(messages),))

    figures.note("read", cpu(read), len(messages))
    figures.note("remove", cpu(remove), len(messages))
    base.close()


def message(size: int) -> Parts:
    """Parts as those of a stream message, *size* bytes in all."""
    head = [b"<IDS|MSG>", os.urandom(32).hex().encode(), b"{}", b"{}", b"{}"]
    return [*head, os.urandom(max(0, size - len(b"".join(head))))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each way, in turn (5)")
    parser.add_argument("--messages", type=int, default=20_000, help="in each round (20000)")
    args = parser.parse_args()
    names = {group: f"SQLite, {group} per transaction" for group in GROUPS}
    results = {}
    for size in SIZES:
        messages = [message(size) for _ in range(args.messages)]
        by_way = {name: Figures() for name in (JOURNAL, *names.values())}
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                journal(Path(folder, "files"), messages, by_way[JOURNAL])
                for group, name in names.items():
                    sqlite(Path(folder, str(group)), messages, group, by_way[name])
        print(f"\n{size} bytes: µs of processor time per message, median of {args.rounds}")
        for name, figures in by_way.items():
            line = f"  {name:28}"
            for what, values in figures.items():
                took = statistics.median(values)
                ratio = took / statistics.median(by_way[JOURNAL][what])
                line += f"{what:>8} {took:6.2f} ({ratio:.1f} ×)"
            print(line)
        results[f"{size} bytes"] = summaries(by_way)
    write("journal", n=args.rounds, unit="µs of processor time per message", results=results)


if __name__ == "__main__":
    main()
