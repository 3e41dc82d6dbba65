"""A bucket of the emulator behaves as a dictionary does, over real HTTP, in any order of calls."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from bucket_calls import Refused, StorageHTTP, object_path
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

NAMES = st.sampled_from(
    ["a", "a/", "a/b", "a/b/c", "a/ü?%#", "a0", "ä/x", "a/b\x7f", "\U0001f600/z"]
)
CONTENTS = st.binary(max_size=300) | st.sampled_from([b"x" * 300_000, b"\r\n--b--\r\n", b"", b"\r"])
#: What a caller says of the generation: nothing, the right one, another one, that there is none.
CLAIMS = st.sampled_from(["nothing", "right", "wrong", "none"])
_numbers = itertools.count()


class Kept(NamedTuple):
    content: bytes
    generation: int
    metageneration: int
    metadata: dict[str, str]


class BucketModel(RuleBasedStateMachine):
    """`live` is what there should be, `old` what a versioned bucket has kept."""

    http: StorageHTTP
    uploads = Bundle("uploads")

    @initialize(versioned=st.booleans())
    def create(self, versioned: bool) -> None:
        self.bucket = f"model-{next(_numbers)}"
        fields = {"versioning": {"enabled": True}} if versioned else {}
        self.http.create_bucket(self.bucket, location="us-west4", **fields)
        self.versioned = versioned
        self.live: dict[str, Kept] = {}
        self.old: dict[tuple[str, int], Kept] = {}
        self.newest = 0

    # ---- what changes something -----------------------------------------------------------------

    def claim(self, name: str, claim: str, *sources: str) -> tuple[dict[str, Any], int]:
        """A precondition about the object of that *name*, and the status that a call with it has
        which needs *sources*.
        """
        generation = self.live[name].generation if name in self.live else 0
        said = {"nothing": None, "right": generation, "wrong": generation + 1, "none": 0}[claim]
        holds, there = said in (None, generation), self.live.keys() >= {*sources}
        return {"ifGenerationMatch": said}, 404 if not there else 200 if holds else 412

    def stored(self, answer: dict[str, Any], name: str, content: bytes, metadata: Any) -> None:
        """The object that *answer* shows has replaced the one of that name."""
        assert answer["name"] == name
        assert int(answer["size"]) == len(content)
        assert int(answer["generation"]) > self.newest
        self.newest = int(answer["generation"])
        self.retire(name)
        self.live[name] = Kept(content, self.newest, 1, metadata)

    def retire(self, name: str) -> None:
        if name in self.live:
            kept = self.live.pop(name)
            if self.versioned:
                self.old[name, kept.generation] = kept

    @rule(
        name=NAMES,
        content=CONTENTS,
        claim=CLAIMS,
        newline=st.sampled_from([b"", b"\n", b"\r\n"]),
        metadata=st.dictionaries(st.sampled_from("kl"), st.sampled_from(["1", "ö"])),
    )
    def upload(
        self, name: str, content: bytes, claim: str, newline: bytes, metadata: dict[str, str]
    ) -> None:
        """In one request, simple for no *newline*."""
        condition, status = self.claim(name, claim)
        path = f"/upload/storage/v1/b/{self.bucket}/o"
        if newline:
            head = json.dumps({"name": name, "metadata": metadata})
            parts = [b"--b", b"Content-Type: application/json", b"", head.encode(), b"--b"]
            body = newline.join([*parts, b"Content-Type: x/y", b"", content, b"--b--", b""])
            request = {
                "headers": {"Content-Type": "multipart/related; boundary=b"},
                "uploadType": "multipart",
            }
        else:
            metadata, body = {}, content
            request = {"uploadType": "media", "name": name}
        answer = self.http.call("POST", path, body, allowed=(status,), **request, **condition).json
        if status != 200:
            return
        digest = hashlib.md5(content).digest()
        assert answer["md5Hash"] == base64.b64encode(digest).decode()
        assert answer.get("metadata", {}) == metadata
        self.stored(answer, name, content, metadata)

    @rule(target=uploads, name=NAMES, content=CONTENTS)
    def begin(self, name: str, content: bytes) -> tuple[str, str, bytes]:
        answer = self.http.call(
            "POST",
            f"/upload/storage/v1/b/{self.bucket}/o",
            {},
            uploadType="resumable",
            name=name,
        )
        return answer.headers["Location"], name, content

    @rule(upload=uploads, part=st.sampled_from([0, 1, 2**18, 2**20]))
    def go_on(self, upload: tuple[str, str, bytes], part: int) -> None:
        """As much as arrived is asked for, and up to *part* bytes more are sent."""
        url, name, content = upload
        asked = {"headers": {"Content-Range": "bytes */*"}, "allowed": (200, 308)}
        answer = self.http.call("PUT", url, b"", **asked)
        if answer.status == 200:  # it has ended before
            return
        first = int(answer.headers.get("Range", "bytes=0--1")[8:]) + 1
        assert first % 2**18 == 0
        sent = content[first : first + part]
        last = first + len(sent) == len(content)
        total = len(content) if last else "*"
        span = f"{first}-{first + len(sent) - 1}" if sent else "*"
        headers = {"Content-Range": f"bytes {span}/{total}"}
        answer = self.http.call("PUT", url, sent, headers=headers, allowed=(200, 308))
        assert answer.status == (200 if last else 308)
        if last:
            self.stored(answer.json, name, content, {})

    @rule(name=NAMES, sources=st.lists(NAMES, min_size=1, max_size=3), claim=CLAIMS)
    def compose(self, name: str, sources: list[str], claim: str) -> None:
        condition, status = self.claim(name, claim, *sources)
        body = {"sourceObjects": [{"name": source} for source in sources], "destination": {}}
        path = f"{object_path(self.bucket, name)}/compose"
        answer = self.http.call("POST", path, body, allowed=(status,), **condition).json
        if status != 200:
            return
        assert "md5Hash" not in answer
        content = b"".join(self.live[source].content for source in sources)
        self.stored(answer, name, content, {})

    @rule(source=NAMES, name=NAMES, claim=CLAIMS, verb=st.sampled_from(["copy", "rewrite", "move"]))
    def copy(self, source: str, name: str, claim: str, verb: str) -> None:
        condition, status = self.claim(name, claim, source)
        to = "" if verb == "move" else f"b/{self.bucket}/"
        path = f"{object_path(self.bucket, source)}/{verb}To/{to}o/{quote(name, safe='')}"
        answer = self.http.call("POST", path, allowed=(status,), **condition).json
        if status != 200:
            return
        kept = self.live[source]
        if verb == "move" and source != name:
            self.retire(source)
        self.stored(answer.get("resource", answer), name, kept.content, kept.metadata)

    @rule(name=NAMES, value=st.sampled_from(["2", None]), claim=CLAIMS)
    def patch(self, name: str, value: str | None, claim: str) -> None:
        condition, status = self.claim(name, claim)
        if status == 200 and name not in self.live:
            status = 404
        path, body = object_path(self.bucket, name), {"metadata": {"k": value}}
        answer = self.http.call("PATCH", path, body, allowed=(status,), **condition).json
        if status != 200:
            return
        kept = self.live[name]
        metadata = {**kept.metadata, "k": value}
        if value is None:
            del metadata["k"]
        self.live[name] = kept._replace(metageneration=kept.metageneration + 1, metadata=metadata)
        assert int(answer["metageneration"]) == kept.metageneration + 1

    @rule(name=NAMES, claim=CLAIMS)
    def delete(self, name: str, claim: str) -> None:
        condition, status = self.claim(name, claim)
        if status == 200:
            status = 204 if name in self.live else 404
        path = object_path(self.bucket, name)
        self.http.call("DELETE", path, allowed=(status,), **condition)
        if status == 204:
            self.retire(name)

    # ---- what reads -----------------------------------------------------------------------------

    @rule(name=NAMES, first=st.integers(0, 400), size=st.integers(1, 400))
    def read_part(self, name: str, first: int, size: int) -> None:
        headers = {"Range": f"bytes={first}-{first + size - 1}"}
        path = object_path(self.bucket, name)
        answer = self.http.call("GET", path, headers=headers, alt="media", allowed=(206, 404, 416))
        if name not in self.live:
            assert answer.status == 404
            return
        kept = self.live[name]
        part = kept.content[first : first + size]
        assert answer.status == (206 if part else 416)
        if part:
            assert answer.content == part
            assert answer.headers["X-Goog-Generation"] == str(kept.generation)
            end = first + len(part) - 1
            assert answer.headers["Content-Range"] == f"bytes {first}-{end}/{len(kept.content)}"

    @rule(name=NAMES, claim=CLAIMS)
    def read_unless_known(self, name: str, claim: str) -> None:
        known = self.claim(name, claim)[0]["ifGenerationMatch"]
        generation = self.live[name].generation if name in self.live else 0
        status = 304 if known == generation else 200 if name in self.live else 404
        path = object_path(self.bucket, name)
        self.http.call("GET", path, ifGenerationNotMatch=known, allowed=(status,))

    @rule(
        prefix=st.sampled_from(["", "a", "a/", "a/b", "zz"]),
        delimiter=st.sampled_from([None, "/", "b"]),
        size=st.integers(1, 4),
        start=st.sampled_from([None, "a/b"]),
    )
    def list(self, prefix: str, delimiter: str | None, size: int, start: str | None) -> None:
        names, prefixes, token = [], [], None
        while True:
            page = self.http.call(
                "GET",
                f"/storage/v1/b/{self.bucket}/o",
                prefix=prefix,
                delimiter=delimiter,
                startOffset=start,
                maxResults=size,
                pageToken=token,
            ).json
            names += [item["name"] for item in page.get("items", [])]
            prefixes += page.get("prefixes", [])
            assert len(page.get("items", [])) + len(page.get("prefixes", [])) <= size
            if (token := page.get("nextPageToken")) is None:
                break
        shown = [n for n in sorted(self.live) if n.startswith(prefix) and n >= (start or "")]
        folders = {
            name: name[: name.index(delimiter, len(prefix)) + len(delimiter)]
            for name in shown
            if delimiter and delimiter in name[len(prefix) :]
        }
        assert names == [name for name in shown if name not in folders]
        assert prefixes == sorted({*folders.values()})

    @invariant()
    def all_is_there(self) -> None:
        if not hasattr(self, "live"):
            return
        path = f"/storage/v1/b/{self.bucket}/o"
        items = self.http.call("GET", path, versions="true").json.get("items", [])
        kept = {**self.old, **{(name, k.generation): k for name, k in self.live.items()}}
        shown = [(item["name"], int(item["generation"])) for item in items]
        assert shown == sorted(kept)
        for item in items:
            name, generation = item["name"], int(item["generation"])
            expected = kept[name, generation]
            assert ("timeDeleted" in item) == ((name, generation) in self.old)
            assert int(item["metageneration"]) == expected.metageneration
            assert item.get("metadata", {}) == expected.metadata
        if items:
            some = kept[key := shown[self.newest % len(shown)]]
            assert self.http.read(self.bucket, key[0], generation=key[1]) == some.content

    def teardown(self) -> None:
        """A bucket with objects can't be deleted, an empty one can."""
        if not hasattr(self, "live"):
            return
        kept = [*self.old, *((name, k.generation) for name, k in self.live.items())]
        if kept:
            with pytest.raises(Refused, match="409"):
                self.http.call("DELETE", f"/storage/v1/b/{self.bucket}")
        for name, generation in kept:
            self.http.call("DELETE", object_path(self.bucket, name), generation=generation)
        self.http.call("DELETE", f"/storage/v1/b/{self.bucket}")


def test_a_bucket_is_a_dictionary_with_generations(emulator: Any) -> None:
    BucketModel.http = StorageHTTP.of_owner(emulator)
    before = {path.name for path in (emulator.state_dir / "storage/contents").iterdir()}
    run_state_machine_as_test(
        BucketModel, settings=settings(max_examples=30, stateful_step_count=25)
    )
    after = {path.name for path in (emulator.state_dir / "storage/contents").iterdir()}
    assert after == before
    BucketModel.http.close()
