"""Who is let in to an app, without any I/O: tickets, passes, and what a cookie alone can't do."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from jupyter_tpu.apps import COOKIE, Admission, Beneath, Origin
from jupyter_tpu.apps.admission import PASSES, TICKET_LIFE
from jupyter_tpu.apps.origin import cookie, refusal, to_browser, to_host

ORIGIN = Origin("app-1234", 4321)


def test_a_ticket_is_good_once_and_for_half_a_minute() -> None:
    now = 0.0
    admission = Admission(lambda: now)
    first, second, third = (admission.ticket("http://localhost:8888") for _ in range(3))
    assert len({first, second, third}) == 3
    made = admission.redeem(first)
    assert made is not None
    assert made.framed_by == "http://localhost:8888"
    assert admission.redeem(first) is None
    now = TICKET_LIFE - 0.1
    assert admission.redeem(second) is not None
    now = TICKET_LIFE
    assert admission.redeem(third) is None
    for wrong in ("", "x", first[:-1], "\udcff"):
        assert admission.redeem(wrong) is None
        assert admission.find(wrong) is None


def test_a_pass_stays_good_and_the_oldest_of_many_is_dropped() -> None:
    now = 0.0
    admission = Admission(lambda: now)
    made = [admission.redeem(admission.ticket("")) for _ in range(PASSES)]
    now = 1e9
    assert all(each is not None and admission.find(each.secret) == each for each in made)
    admission.redeem(admission.ticket(""))
    assert made[0] is not None
    assert admission.find(made[0].secret) is None


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "http://app-1234.localhost:4321"}, True),
        ({"Origin": "http://app-1234.localhost"}, False),
        ({"Origin": "https://app-1234.localhost:4321"}, False),
        ({"Origin": "http://other.localhost:4321"}, False),
        ({"Origin": ""}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "something new"}, False),
    ],
)
def test_a_cookie_alone_is_not_enough(headers: dict[str, str], allowed: bool) -> None:
    found = refusal(ORIGIN, "POST", CIMultiDict(headers), upgrade=False)
    assert (found is None) == allowed


def test_our_cookie_stays_with_us_and_the_hosts_own_pass() -> None:
    sent = CIMultiDict({"Cookie": f"a=1;{COOKIE}=secret; b=2"})
    assert cookie(sent) == "secret"
    assert dict(to_host(ORIGIN, 80, [("Cookie", sent["Cookie"])])) == {
        "Host": "localhost:80",
        "Cookie": "a=1; b=2",
    }
    only = to_host(ORIGIN, 80, [("cookie", f"{COOKIE}=secret"), ("Referer", "http://lab/notebook")])
    assert only == [("Host", "localhost:80")]


def test_what_connection_names_is_not_passed_on() -> None:
    asked = [("Connection", "close, X-Hop"), ("x-hop", "1"), ("X-End", "2"), ("TE", "trailers")]
    assert to_host(ORIGIN, 80, asked) == [("X-End", "2"), ("Host", "localhost:80")]


def test_a_policy_of_the_host_stays_but_for_who_may_frame_it() -> None:
    said = "frame-ancestors 'none'; img-src *, default-src 'self'; Frame-Ancestors x"
    kept = to_browser(ORIGIN, 80, [("content-security-policy", said)], "http://lab:1")
    assert kept[0] == ("content-security-policy", "img-src *, default-src 'self'")
    name, ours = kept[1]
    assert name == "Content-Security-Policy"
    assert ours.startswith("frame-ancestors 'self' http://lab:1; ")
    alone = to_browser(ORIGIN, 80, [("Content-Security-Policy", "frame-ancestors *")], "")
    assert [value for name, value in alone if name == "Content-Security-Policy"] == [
        f"frame-ancestors 'self'; connect-src 'self' ws://{ORIGIN.host}; form-action 'self'"
    ]


def test_an_app_that_may_reach_anywhere_is_still_framed_by_its_own_alone() -> None:
    headers = to_browser(
        ORIGIN, 80, [("Content-Security-Policy", "connect-src x")], "http://lab:1", anywhere=True
    )
    assert [value for name, value in headers if name == "Content-Security-Policy"] == [
        "connect-src x",  # what its own server says stays
        "frame-ancestors 'self' http://lab:1",
    ]


BENEATH = Beneath("hub.example:8000", "/user/a%40b/jupyter-tpu/proxy/my-tpu/0/6006")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/", "/"),
        ("/a%2F?b=%20&c", "/a%2F?b=%20&c"),
        ("/?token=secret", "/"),
        ("/a?token=secret&b=1&_xsrf=2&token=x", "/a?b=1"),
        ("/a?tokens=1", "/a?tokens=1"),
        ("", None),
        ("7/a", None),
    ],
)
def test_what_lets_people_in_to_jupyter_is_not_asked_of_a_host(uri: str, path: str | None) -> None:
    assert BENEATH.at_host(BENEATH.prefix + uri) == path
    for scheme in ("http", "https"):
        assert BENEATH.path(f"{scheme}://hub.example:8000{BENEATH.prefix}{uri}") == path
    assert BENEATH.path(f"http://other.example{BENEATH.prefix}{uri}") is None


def test_cookies_beneath_jupyter_have_names_that_none_of_jupyters_has() -> None:
    for name in ("a", "_xsrf", "username-hub", "jupyterhub-session-id", "__Host-x"):
        for said in (f"{name}=1", f" {name}=1 ; Domain=hub.example; path=/; HttpOnly"):
            made = BENEATH.cookie_to_browser(said)
            assert made is not None
            pair, path, *attributes = made.split("; ")
            assert pair.startswith("jupyter-tpu-")
            assert path == f"Path={BENEATH.prefix}/"
            assert attributes == (["HttpOnly"] if "HttpOnly" in said else [])
            assert BENEATH.cookie_to_host(pair) == f"{name}=1"
        assert BENEATH.cookie_to_host(f"{name}=1") is None
    deeper = BENEATH.cookie_to_browser("a=1; Path=/deep; Path=//evil; Secure")
    assert deeper is not None
    assert deeper.endswith(f"; Path={BENEATH.prefix}//evil; Secure")
    other = Beneath(BENEATH.host, BENEATH.prefix.replace("6006", "6007"))
    assert other.cookie_to_host(deeper.partition(";")[0]) is None
    for wrong in ("", "; Path=/", "=1", "a"):
        assert BENEATH.cookie_to_browser(wrong) is None


def test_a_host_can_not_take_all_of_jupyters_origin() -> None:
    said = [("Service-Worker-Allowed", "/"), ("Clear-Site-Data", "*"), ("NEL", "{}"), ("X", "1")]
    kept = to_browser(BENEATH, 80, said, "")
    assert kept[0] == ("X", "1")
    assert [name for name, _ in kept[1:]] == ["Content-Security-Policy", "Referrer-Policy"]
    odd = Beneath("hub; script-src *", "/p")
    assert odd.socket == ""
