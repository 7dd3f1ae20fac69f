"""Who may ask the live page: names, tokens, other sites; and what each answer carries."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse

from reconciler.kafka.address import is_loopback
from reconciler.operations.serve.connections import HEADERS, Access, Guard, may_be_called, new_token
from tests.support.fakes.browser import Answer, ask

POLICY = "default-src 'none'"
TOKEN = new_token()


def called(path: str = "/", access: Access | None = None, method: str = "GET", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(Guard(PlainTextResponse("page"), access or Access(), POLICY), path, named, method)


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("127.0.0.1:8642", True),
        ("localhost:8642", True),
        ("LOCALHOST", True),
        ("localhost.", True),
        ("[::1]:8642", True),
        ("192.168.1.7:8642", True),
        ("kafka.example.com", True),
        ("evil.example.com", False),
        ("127.0.0.1.evil.example.com:8642", False),
        ("localhost.evil.example.com", False),
        ("", False),
        ("localhost:8642@evil.example.com", False),
    ],
)
def test_a_name_that_is_not_ours_is_refused_since_anybody_may_let_one_lead_here(host: str, may: bool) -> None:
    names = frozenset({"localhost", "kafka.example.com"})
    assert may_be_called(host, names) is may
    assert called(access=Access(names), host=host).status == (200 if may else 421)


def test_what_another_site_loads_is_refused_and_a_link_to_us_is_not() -> None:
    assert called(sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403
    assert called(sec_fetch_site="same-site", sec_fetch_mode="cors").status == 403
    assert called(sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200
    assert called(sec_fetch_site="same-origin", sec_fetch_mode="cors").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_asked_for_but_to_be_shown(method: str) -> None:
    assert called(method=method).status == 405


@pytest.mark.parametrize("answer", [called(), called(host="evil.example.com"), called(access=Access(token=TOKEN))])
def test_every_answer_carries_the_policy(answer: Answer) -> None:
    assert answer.headers["content-security-policy"] == POLICY
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_without_its_token_nothing_is_shown() -> None:
    access = Access(token=TOKEN)
    assert called(access=access).status == 401
    assert called(access=access, authorization=f"Bearer {TOKEN}").status == 200
    for wrong in (TOKEN[:-1], TOKEN.upper(), "", "\u00e9"):
        assert called(access=access, authorization=f"Bearer {wrong}").status == 401
        assert called(access=access, cookie=f"reconciler-live={wrong}").status == 401
    assert called("/?token=wrong", access).status == 401
    assert "page" not in called(access=access).body.split()[:1]


def test_the_token_of_an_address_becomes_a_cookie_and_leaves_the_address() -> None:
    access = Access(token=TOKEN)
    answer = called(f"/topics?q=a%26b&token={TOKEN}&page=2", access)
    assert answer.status == 303
    assert answer.headers["location"] == "/topics?q=a%26b&page=2"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    encrypted = called(f"/?token={TOKEN}", Access(token=TOKEN, encrypted=True))
    assert "Secure" in encrypted.headers["set-cookie"], "with TLS it never travels without"
    assert called("/topics", access, cookie=cookie.partition(";")[0]).status == 200
    assert called(f"//evil.example.com/?token={TOKEN}", access).headers["location"] == "/evil.example.com/"


def test_a_token_is_long_and_new_each_time() -> None:
    assert len(TOKEN) >= 40
    assert new_token() != TOKEN


@pytest.mark.parametrize(
    ("address", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("192.168.1.7", False), ("my-laptop", False)],
)  # fmt: skip
def test_only_loopback_is_without_a_token(address: str, local: bool) -> None:
    assert is_loopback(address) is local
