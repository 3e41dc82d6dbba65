"""Who is let in to an app, without any I/O: tickets, sessions, and what a cookie alone can't do."""

import pytest
from multidict import CIMultiDict

from jupyter_tpu.apps import COOKIE, AppAuth, Origin, PathMount
from jupyter_tpu.apps.auth import MAX_SESSIONS, TICKET_LIFETIME
from jupyter_tpu.apps.headers import refusal, session_secret, to_browser, to_host

ORIGIN = Origin("app-1234", 4321)


def test_a_ticket_is_good_once_and_for_half_a_minute():
    now = 0.0
    auth = AppAuth(lambda: now)
    first, second, third = (auth.issue_ticket("http://localhost:8888") for _ in range(3))
    assert len({first, second, third}) == 3
    session = auth.redeem(first)
    assert session.framed_by == "http://localhost:8888"
    assert auth.redeem(first) is None
    now = TICKET_LIFETIME - 0.1
    assert auth.redeem(second) is not None
    now = TICKET_LIFETIME
    assert auth.redeem(third) is None
    for wrong in ("", "x", first[:-1], "\udcff"):
        assert auth.redeem(wrong) is None
        assert auth.find_session(wrong) is None


def test_a_session_stays_valid_and_the_oldest_of_many_is_dropped():
    now = 0.0
    auth = AppAuth(lambda: now)
    sessions = [auth.redeem(auth.issue_ticket("")) for _ in range(MAX_SESSIONS)]
    now = 1e9
    assert all(
        session is not None and auth.find_session(session.secret) == session for session in sessions
    )
    auth.redeem(auth.issue_ticket(""))
    assert auth.find_session(sessions[0].secret) is None


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
def test_a_cookie_alone_is_not_enough(headers, allowed):
    reason = refusal(ORIGIN, "POST", CIMultiDict(headers), upgrade=False)
    assert (reason is None) == allowed


def test_our_cookie_stays_with_us_and_the_hosts_own_pass():
    sent = CIMultiDict({"Cookie": f"a=1;{COOKIE}=secret; b=2"})
    assert session_secret(sent) == "secret"
    assert dict(to_host(ORIGIN, 80, [("Cookie", sent["Cookie"])])) == {
        "Host": "localhost:80",
        "X-Forwarded-Host": ORIGIN.host,
        "X-Forwarded-Proto": "http",
        "Cookie": "a=1; b=2",
    }
    only = to_host(ORIGIN, 80, [("cookie", f"{COOKIE}=secret"), ("Referer", "http://lab/notebook")])
    assert only == to_host(ORIGIN, 80, [])


def test_the_host_learns_the_apps_address_from_us_alone():
    claims = [("X-Forwarded-Host", "evil"), ("x-forwarded-proto", "https")]
    assert to_host(ORIGIN, 80, claims) == [
        ("Host", "localhost:80"),
        ("X-Forwarded-Host", "app-1234.localhost:4321"),
        ("X-Forwarded-Proto", "http"),
    ]
    assert to_host(PATH_MOUNT, 80, claims) == [("Host", "localhost:80")]


def test_what_connection_names_is_not_passed_on():
    headers = [("Connection", "close, X-Hop"), ("x-hop", "1"), ("X-End", "2"), ("TE", "trailers")]
    assert to_host(ORIGIN, 80, headers) == [("X-End", "2"), *to_host(ORIGIN, 80, [])]


def test_a_policy_of_the_host_stays_but_for_who_may_frame_it():
    received = "frame-ancestors 'none'; img-src *, default-src 'self'; Frame-Ancestors x"
    kept = to_browser(ORIGIN, 80, [("content-security-policy", received)], "http://lab:1")
    assert kept[0] == ("content-security-policy", "img-src *, default-src 'self'")
    name, ours = kept[1]
    assert name == "Content-Security-Policy"
    assert ours.startswith("frame-ancestors 'self' http://lab:1; ")
    alone = to_browser(ORIGIN, 80, [("Content-Security-Policy", "frame-ancestors *")], "")
    assert [value for name, value in alone if name == "Content-Security-Policy"] == [
        f"frame-ancestors 'self'; connect-src 'self' ws://{ORIGIN.host}; form-action 'self'"
    ]


def test_a_host_can_not_make_the_browser_send_reports():
    """They are POST requests to any address, whatever the page's policy says."""
    received = [
        ("Content-Security-Policy", "img-src 'none'; Report-URI http://127.0.0.1:1/; report-to x"),
        ("Content-Security-Policy-Report-Only", "img-src 'none'; report-uri http://127.0.0.1:1/"),
        ("Reporting-Endpoints", 'x="http://127.0.0.1:1/"'),
        ("Report-To", "{}"),
        ("NEL", "{}"),
    ]
    kept = to_browser(ORIGIN, 80, received, "")
    assert kept[0] == ("Content-Security-Policy", "img-src 'none'")
    assert [name for name, _ in kept[1:]] == ["Content-Security-Policy", "Referrer-Policy"]


def test_an_app_that_may_use_other_servers_is_still_framed_only_by_its_own_page():
    headers = to_browser(
        ORIGIN,
        80,
        [("Content-Security-Policy", "connect-src x")],
        "http://lab:1",
        allow_external=True,
    )
    assert [value for name, value in headers if name == "Content-Security-Policy"] == [
        "connect-src x",  # what its own server says stays
        "frame-ancestors 'self' http://lab:1",
    ]


PATH_MOUNT = PathMount("hub.example:8000", "/user/a%40b/jupyter-tpu/proxy/my-tpu/0/6006")


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
def test_what_lets_people_in_to_jupyter_is_not_asked_of_a_host(uri, path):
    assert PATH_MOUNT.to_host_path(PATH_MOUNT.prefix + uri) == path
    for scheme in ("http", "https"):
        assert PATH_MOUNT.path_of(f"{scheme}://hub.example:8000{PATH_MOUNT.prefix}{uri}") == path
    assert PATH_MOUNT.path_of(f"http://other.example{PATH_MOUNT.prefix}{uri}") is None


def test_cookies_beneath_jupyter_have_names_that_none_of_jupyters_has():
    for name in ("a", "_xsrf", "username-hub", "jupyterhub-session-id", "__Host-x"):
        for received in (f"{name}=1", f" {name}=1 ; Domain=hub.example; path=/; HttpOnly"):
            made = PATH_MOUNT.cookie_to_browser(received)
            pair, path, *attributes = made.split("; ")
            assert pair.startswith("jupyter-tpu-")
            assert path == f"Path={PATH_MOUNT.prefix}/"
            assert attributes == (["HttpOnly"] if "HttpOnly" in received else [])
            assert PATH_MOUNT.cookie_to_host(pair) == f"{name}=1"
        assert PATH_MOUNT.cookie_to_host(f"{name}=1") is None
    deeper = PATH_MOUNT.cookie_to_browser("a=1; Path=/deep; Path=//evil; Secure")
    assert deeper.endswith(f"; Path={PATH_MOUNT.prefix}//evil; Secure")
    other = PathMount(PATH_MOUNT.host, PATH_MOUNT.prefix.replace("6006", "6007"))
    assert other.cookie_to_host(deeper.partition(";")[0]) is None
    for wrong in ("", "; Path=/", "=1", "a"):
        assert PATH_MOUNT.cookie_to_browser(wrong) is None


def test_a_host_can_not_take_all_of_jupyters_origin():
    received = [
        ("Service-Worker-Allowed", "/"),
        ("Clear-Site-Data", "*"),
        ("NEL", "{}"),
        ("X", "1"),
    ]
    kept = to_browser(PATH_MOUNT, 80, received, "")
    assert kept[0] == ("X", "1")
    assert [name for name, _ in kept[1:]] == ["Content-Security-Policy", "Referrer-Policy"]
    odd = PathMount("hub; script-src *", "/p")
    assert odd.websocket_source == ""
