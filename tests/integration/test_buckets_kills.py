"""An emulator that is killed while many write: what was acknowledged is there, and all is whole."""

from __future__ import annotations

import hashlib
import http.client
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bucket_calls import Refused, StorageHTTP

WRITERS = 4


@pytest.fixture
def killed(emulator: Any, tmp_path: Path) -> Iterator[Any]:
    """An emulator of this test alone."""
    process = type(emulator)(tmp_path / "state")
    yield process
    process.stop()


def content(chance: random.Random) -> bytes:
    """Up to 2 MB that say whether they are whole."""
    body = chance.randbytes(chance.choice([0, 1000, 300_000, 2_000_000]))
    return hashlib.sha256(body).digest() + body


def is_whole(data: bytes) -> bool:
    return hashlib.sha256(data[32:]).digest() == data[:32]


class Writer(threading.Thread):
    """Writes one object again and again, until the emulator is gone.

    acknowledged: its last generation that the emulator has confirmed; 0: none, or it was deleted.
    """

    def __init__(self, emulator: Any, name: str, acknowledged: int, seed: int) -> None:
        super().__init__()
        self.object, self.acknowledged = name, acknowledged
        self._emulator = emulator
        self._chance = random.Random(seed)
        self.calls = 0
        self.start()

    def run(self) -> None:
        calls = StorageHTTP.of_owner(self._emulator)
        try:
            while True:
                self._write(calls)
                self.calls += 1
        except (OSError, http.client.HTTPException):
            pass

    def _write(self, calls: StorageHTTP) -> None:
        data = content(self._chance)
        if self._chance.random() < 0.5:
            made = calls.upload("b-1", self.object, data)
        else:
            path = "/upload/storage/v1/b/b-1/o"
            begun = calls.call("POST", path, {}, uploadType="resumable", name=self.object)
            made = calls.call("PUT", begun.headers["Location"], data).json
        self.acknowledged = int(made["generation"])


def test_what_was_acknowledged_is_there_and_nothing_is_half(killed: Any) -> None:
    StorageHTTP.of_owner(killed).create_bucket("b-1")
    acknowledged = dict.fromkeys(map(str, range(WRITERS)), 0)
    written = 0
    for round in range(6):
        writers = [
            Writer(killed, name, generation, seed=round * WRITERS + number)
            for number, (name, generation) in enumerate(acknowledged.items())
        ]
        time.sleep(random.Random(round).uniform(0.1, 0.5))  # at any moment
        killed.kill()
        for writer in writers:
            writer.join()
        written += sum(writer.calls for writer in writers)
        killed.start()
        calls = StorageHTTP.of_owner(killed)
        for writer in writers:
            try:
                answer = calls.call("GET", f"/storage/v1/b/b-1/o/{writer.object}", alt="media")
            except Refused:
                assert writer.acknowledged == 0
                continue
            assert is_whole(answer.content)
            # The last one that was confirmed, or the one that was on its way.
            generation = int(answer.headers["X-Goog-Generation"])
            assert generation >= writer.acknowledged
            acknowledged[writer.object] = generation
        # Nothing else has stayed on the disk, but for uploads that can go on, whose ids are longer.
        incoming = (killed.state_dir / "storage/incoming").iterdir()
        assert [path.name for path in incoming if len(path.name) == 32] == []
        files = {path.name for path in (killed.state_dir / "storage/contents").iterdir()}
        assert files == {str(generation) for generation in acknowledged.values() if generation}
    assert written > WRITERS
