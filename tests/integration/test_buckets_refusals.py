"""What Google refuses, and what the emulator's Cloud Storage lacks, is refused in words."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from bucket_calls import Refused, StorageHTTP
from emulator_error import EmulatorError

UPLOAD = "/upload/storage/v1/b/{bucket}/o?uploadType="
OBJECT = "/storage/v1/b/{bucket}/o/x"


@pytest.fixture(scope="module")
def http(emulator: Any) -> StorageHTTP:
    return StorageHTTP.of_owner(emulator)


@pytest.fixture(scope="module")
def bucket(http: StorageHTTP) -> str:
    name = f"refusals-{uuid.uuid4().hex[:8]}"
    http.create_bucket(name)
    http.upload(name, "x", b"content")
    return name


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "says"),
    [
        (
            "POST",
            "/storage/v1/b",
            {"name": "Capitals"},
            {},
            "400 .*Invalid bucket name: 'Capitals'",
        ),
        ("POST", "/storage/v1/b", [], {}, "400 .*the body is not an object"),
        (
            "POST",
            "/storage/v1/b",
            {"name": "abc", "lifecycle": {"rule": [1]}},
            {},
            "501 .*lifecycle",
        ),
        (
            "GET",
            "/storage/v1/b?pageToken=x",
            None,
            {},
            "400 .*Invalid value for parameter pageToken",
        ),
        ("GET", "/storage/v1/b/none-of-this-name/o", None, {}, "404 .*bucket does not exist"),
        ("GET", "/storage/v1/b/{bucket}/o?matchGlob=*", None, {}, "501 .*parameter matchGlob"),
        ("GET", "/storage/v1/b/{bucket}/acl", None, {}, "404 .*acl"),
        ("GET", "/storage/v1/b/{bucket}/o/%FF", None, {}, "400 .*valid UTF-8"),
        ("GET", f"{OBJECT}?generation=one", None, {}, "400 .*parameter generation: 'one'"),
        ("GET", f"{OBJECT}?generation=1", None, {}, "404 .*No such object"),
        ("GET", f"{OBJECT}?alt=media", None, {"Range": "bytes=7-"}, "416 .*range cannot be"),
        ("GET", OBJECT, None, {"x-goog-encryption-algorithm": "AES256"}, "501 .*caller's keys"),
        ("PATCH", OBJECT, {"metadata": {"k": 1}}, {}, "400 .*maps strings to strings"),
        ("PATCH", OBJECT, {"temporaryHold": True}, {}, "501 .*temporaryHold"),
        ("POST", f"{OBJECT}/compose", {"sourceObjects": []}, {}, "400 .*components provided .0."),
        ("POST", f"{UPLOAD}media", b"", {}, "400 .*Required parameter: name"),
        ("POST", f"{UPLOAD}media&name=a%0Ab", b"", {}, "400 .*Disallowed unicode"),
        ("POST", f"{UPLOAD}media&name={'n' * 1025}", b"", {}, "400 .*maximum object length"),
        ("POST", f"{UPLOAD}telepathic&name=a", b"", {}, "400 .*uploadType: 'telepathic'"),
        ("POST", f"{UPLOAD}multipart", b"--b\r\n", {}, "400 .*not multipart/related"),
        (
            *("POST", f"{UPLOAD}multipart", b"--b\r\n\r\n{}\r\n--b\r\n\r\nno end"),
            *({"Content-Type": "multipart/related; boundary=b"}, "400 .*it has no end"),
        ),
        ("PUT", f"{UPLOAD}resumable&upload_id=none", b"", {}, "404 .*has expired"),
    ],
)
def test_a_call_is_refused(
    http: StorageHTTP,
    bucket: str,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    says: str,
) -> None:
    with pytest.raises(Refused, match=f"^{says}"):
        http.call(method, path.format(bucket=bucket), body, headers=headers)
    items = http.call("GET", f"/storage/v1/b/{bucket}/o").json["items"]
    assert [item["name"] for item in items] == ["x"]


def test_a_resumable_upload_has_the_order_and_size_that_were_said(
    http: StorageHTTP, bucket: str
) -> None:
    path = UPLOAD.format(bucket=bucket)
    begun = http.call(
        "POST", f"{path}resumable&name=u", {}, headers={"X-Upload-Content-Length": "3"}
    )
    url = begun.headers["Location"]
    for span, body, says in (
        ("bytes 1-2/3", b"bc", "exceeds already uploaded size of 0"),
        ("bytes 0-1/2", b"ab", "another size than was said"),
        ("bytes a-b/c", b"", "Failed to parse Content-Range"),
    ):
        with pytest.raises(Refused, match=f"^400 .*{says}"):
            http.call("PUT", url, body, headers={"Content-Range": span})
    http.call("DELETE", url, allowed=(499,))
    with pytest.raises(Refused, match=r"^404 "):
        http.call("PUT", url, b"abc")


def test_faults_of_transfers_are_checked(emulator: Any) -> None:
    with pytest.raises(EmulatorError, match="bytes_per_second must be greater than 0"):
        emulator.inject_fault("slow-transfer", bytes_per_second=0)
    with pytest.raises(EmulatorError, match="there is no method"):
        emulator.inject_fault("cut-transfer", method="objects.nothing")
