"""Tokens are kept, renewed once, and asked for with pauses; librdkafka gets the same ones."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from reconciler.kafka.client.auth import oauth
from reconciler.kafka.client.auth.oauth import granted, librdkafka_settings, oauth_settings, token
from reconciler.kafka.client.auth.tokens.web import AccessToken, TokenRefusedError
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError
from tests.support.access.identity import IdentityAnswer, identity_server

SECRET = "s3cret-of-ada"


class Given:
    """A provider of tokens, as installed packages have it."""

    answers: list[object] = []
    calls = 0
    gate: threading.Event | None = None


def provide(settings: dict[str, str]) -> tuple[str, float]:
    Given.calls += 1
    if Given.gate is not None:
        Given.gate.wait(20)
    answer = Given.answers.pop(0) if len(Given.answers) > 1 else Given.answers[0]
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, tuple)
    return answer


OWN = {"sasl.oauthbearer.method": f"{__name__}:provide"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "_kept", {})
    Given.answers, Given.calls, Given.gate = [], 0, None


def test_a_token_is_asked_for_once_by_many_threads() -> None:
    Given.answers = [("one", time.time() + 60)]
    Given.gate = threading.Event()
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(token, OWN) for _ in range(8)]
        time.sleep(0.1)
        Given.gate.set()
        assert {future.result().text for future in waiting} == {"one"}
    assert Given.calls == 1


def clocks(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], float]:
    """What the clock says and when that was now; the monotonic one goes with it."""
    now, monotonic = time.time(), time.monotonic()
    clock = [now]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(time, "monotonic", lambda: monotonic + clock[0] - now)
    return clock, now


def test_a_token_is_renewed_after_four_fifths_of_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = clocks(monkeypatch)
    Given.answers = [("one", now + 100), ("two", now + 200)]
    assert token(OWN).text == "one"
    clock[0] = now + 79
    assert token(OWN).text == "one"
    clock[0] = now + 81
    assert token(OWN).text == "two"


def test_a_renewal_that_fails_keeps_the_token_as_long_as_it_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = clocks(monkeypatch)
    Given.answers = [("one", now + 100), TokenRefusedError("busy", busy=True)]
    assert token(OWN).text == "one"
    clock[0] = now + 90
    assert token(OWN).text == "one"
    assert Given.calls == 2
    clock[0] = now + 101
    with pytest.raises(AuthenticationFailedError):
        token(OWN)


def test_a_token_file_that_is_replaced_just_now_ends_no_valid_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock, now = clocks(monkeypatch)
    proof = tmp_path / "federated"
    proof.write_text("ey.of.pod")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(proof))
    named = {"method": "azure", "scope": "x/.default", "client.id": "app", "azure.tenant_id": "t"}
    settings = {f"sasl.oauthbearer.{name}": value for name, value in named.items()}
    with identity_server(lambda _: IdentityAnswer({"access_token": "one", "expires_in": 100})) as server:
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", server.url)
        assert token(settings).text == "one"
        clock[0] = now + 90
        proof.write_text("")
        assert token(settings).text == "one"
        proof.unlink()
        clock[0] = now + 200
        with pytest.raises(
            AuthenticationFailedError, match=f"AZURE_FEDERATED_TOKEN_FILE names {proof}, which cannot be read"
        ):
            token(settings)


def test_what_a_provider_gives_has_to_be_a_token() -> None:
    Given.answers = [("one\r\n", time.time() + 60)]
    with pytest.raises(AuthenticationFailedError, match="characters that no token has"):
        token(OWN)


def test_a_token_that_a_broker_refused_is_renewed_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = clocks(monkeypatch)
    Given.answers = [("one", now + 3600), ("two", now + 3600)]
    for _ in range(3):  # each connection that is refused says so
        assert not oauth.refused(OWN, token(OWN))
    assert (token(OWN).text, Given.calls) == ("one", 1)
    clock[0] = now + oauth.LONGEST_REFUSED + 0.1
    assert (token(OWN).text, Given.calls) == ("two", 2)


def test_a_token_that_is_refused_later_is_renewed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended by the broker's clock, or the issuer has other keys."""
    clock, now = clocks(monkeypatch)
    Given.answers = [("one", now + 3600), ("two", now + 3600)]
    given = token(OWN)
    clock[0] = now + oauth.LONGEST_REFUSED + 0.1
    assert oauth.refused(OWN, given)
    assert (token(OWN).text, Given.calls) == ("two", 2)
    assert oauth.refused(OWN, given), "another connection had it, too"
    assert not oauth.refused(OWN, token(OWN)), "the next one is not asked for without a pause"


def test_a_refused_token_is_renewed_although_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was ahead, which is why the token was refused."""
    clock, now = clocks(monkeypatch)
    Given.answers = [("one", now + 900), ("two", now + 300)]
    oauth.refused(OWN, token(OWN))
    later = time.monotonic() + oauth.LONGEST_REFUSED + 0.1
    clock[0] = now - 600
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert (token(OWN).text, Given.calls) == ("two", 2)


def test_who_has_a_valid_token_does_not_wait_for_its_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = clocks(monkeypatch)
    Given.answers = [("one", now + 100), ("two", now + 200)]
    token(OWN)
    Given.gate = threading.Event()
    clock[0] = now + 85
    with ThreadPoolExecutor(1) as threads:
        renewing = threads.submit(token, OWN)
        while Given.calls < 2:
            time.sleep(0.01)
        assert token(OWN).text == "one"
        Given.gate.set()
        assert renewing.result().text == "two"


def test_nothing_is_shown_again_that_was_refused_while_another_thread_gets_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections whose sessions end together are refused together, and each dials once more."""
    clock, now = clocks(monkeypatch)
    Given.answers = [("one", now + 3600), ("two", now + 7200)]
    given = token(OWN)
    clock[0] = now + oauth.LONGEST_REFUSED + 0.1
    assert oauth.refused(OWN, given)
    Given.gate = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        renewing = threads.submit(token, OWN)
        while Given.calls < 2:
            time.sleep(0.01)
        beside = threads.submit(token, OWN)
        time.sleep(0.1)
        early = beside.done()
        Given.gate.set()
        assert (renewing.result().text, beside.result().text, early) == ("two", "two", False)


def test_a_provider_of_others_says_nothing_secret() -> None:
    Given.answers = [ValueError(SECRET)]
    with pytest.raises(AuthenticationFailedError, match="ValueError") as told:
        token(OWN)
    assert SECRET not in str(told.value)


def _oidc(url: str, **more: str) -> dict[str, str]:
    named = {"method": "oidc", "token.endpoint.url": url, "client.id": "ada", "client.secret": SECRET, **more}
    return {f"sasl.oauthbearer.{name}": value for name, value in named.items()}


def test_retry_after_is_kept_to() -> None:
    slow = IdentityAnswer({"error": "slow_down"}, 429, {"Retry-After": "300"})
    with identity_server(lambda _: slow) as server:
        for _ in range(5):
            with pytest.raises(AuthenticationFailedError, match="429, slow_down"):
                token(_oidc(server.url))
    assert len(server.asked) == 1


def test_a_rotated_secret_is_tried_at_once() -> None:
    def answers(request: object) -> IdentityAnswer:
        good = getattr(request, "form", {}).get("client_secret") == "new"
        return IdentityAnswer(
            {"access_token": "t", "expires_in": 60} if good else {"error": "invalid_client"}, 200 if good else 401
        )

    with identity_server(answers) as server:
        post = {"client.authentication": "client_secret_post"}
        with pytest.raises(AuthenticationFailedError, match="401, invalid_client") as told:
            token(_oidc(server.url, **post))
        assert SECRET not in str(told.value)
        assert token(_oidc(server.url, **{**post, "client.secret": "new"})).text == "t"


def test_expires_in_counts_where_the_token_is_opaque() -> None:
    with identity_server(lambda _: IdentityAnswer({"access_token": "opaque", "expires_in": "120"})) as server:
        given = token(_oidc(server.url))
    assert 100 < given.expires_at - time.time() <= 120
    assert "opaque" not in repr(given)


def test_librdkafka_gets_its_token_from_the_same_seam() -> None:
    with identity_server(lambda _: IdentityAnswer({"access_token": "opaque", "expires_in": 60})) as server:
        client = {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_PLAINTEXT", **_oidc(server.url)}
        settings = librdkafka_settings(client)
        token(oauth_settings(client))
        callback = settings["oauth_cb"]
        assert callable(callback)
        assert callback("")[0] == "opaque"
        assert SECRET not in repr({name: value for name, value in settings.items() if name != "oauth_cb"})
        AdminClient({**settings, "bootstrap.servers": "127.0.0.1:1"})  # it takes these settings
    assert len(server.asked) == 1


def test_librdkafka_has_another_token_before_a_brokers_clock_ends_the_first() -> None:
    """A broker's session ends with the token: with a clock that is behind, long before the token does here."""
    with identity_server(lambda _: IdentityAnswer({"access_token": "opaque", "expires_in": 900})) as server:
        settings = {"sasl.mechanism": "OAUTHBEARER", **_oidc(server.url)}
        client = librdkafka_settings(settings)["oauth_cb"]
        assert callable(client)
        assert client("")[1] <= time.time() + oauth.LIBRDKAFKA_ASKS
        granted(oauth_settings(settings), time.monotonic(), 2.0)
        client("")
        assert len(server.asked) == 1
        time.sleep(1.7)
        client("")
        client("")
        assert len(server.asked) == 2


def test_a_connection_that_takes_over_a_session_that_ends_with_its_token_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a clock that is behind, brokers end sessions 20 s after a token that lives 900 s here was given."""
    clock, now = clocks(monkeypatch)
    Given.answers = [(name, now + 900 + at) for name, at in (("one", 0), ("two", 17), ("three", 34), ("four", 51))]

    def session(seconds: float) -> str:
        text = token(OWN).text
        granted(OWN, time.monotonic(), seconds)
        return text

    assert session(20) == "one"
    clock[0] = now + 16
    assert session(4) == "one", "a session may as well end by the broker's own limit"
    clock[0] = now + 17
    assert session(20) == "two"
    clock[0] = now + 34
    assert session(20) == "three", "at 80 % of the life that a broker gives it"
    clock[0] = now + 35
    assert session(900) == "three", "the clock is right"
    clock[0] = now + 51
    assert session(900) == "four"
    clock[0] = now + 51 + 700
    assert (session(200), Given.calls) == ("four", 4)


def test_sessions_that_end_by_a_brokers_own_limit_ask_for_no_further_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """``connections.max.reauth.ms`` of a minute, and of an hour on the other cluster with the same login."""
    clock, now = clocks(monkeypatch)
    Given.answers = [("one", now + 3600)]
    for second in range(0, 2880, 48):
        clock[0] = now + second
        assert token(OWN).text == "one"
        granted(OWN, time.monotonic(), 60)
        clock[0] = now + second + 3
        granted(OWN, time.monotonic(), 60)
        if second % 480 == 0:
            granted(OWN, time.monotonic(), 3600 - second - 3)
    assert Given.calls == 1


def test_a_method_that_is_none_is_said() -> None:
    with pytest.raises(SettingError, match="no method"):
        token({"sasl.oauthbearer.method": "kerberos"})


def test_a_token_shows_nowhere() -> None:
    assert "abc" not in repr(AccessToken("abc", 0.0))
