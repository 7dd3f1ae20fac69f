"""One parser of addresses: what two programs could read differently is none."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kafka.address import HostPort, host_port, url_address
from reconciler.model.schemas import schema
from reconciler.replication.allowed import VARIABLE, allowed
from tests.e2e.hostile.words import ADDRESSES, READ_ALIKE

RIGHT = {
    "east.example:9092": HostPort("east.example", 9092),
    "East:1": HostPort("East", 1),
    "broker_1.kafka.svc.cluster.local.:65535": HostPort("broker_1.kafka.svc.cluster.local.", 65535),
    "10.0.0.1:9092": HostPort("10.0.0.1", 9092),
    "[fd00::1]:9092": HostPort("fd00::1", 9092),
    "b-1.2024:9092x.example:1": None,
    "x" * 64 + ":1": None,
}


@pytest.mark.parametrize(("text", "place"), RIGHT.items())
def test_an_address_is_a_host_and_a_port(text: str, place: HostPort | None) -> None:
    if place is None:
        with pytest.raises(ValueError, match="host"):
            host_port(text)
    else:
        assert host_port(text) == place
        assert host_port(str(place)) == place


@pytest.mark.parametrize("text", [address for address in ADDRESSES if address not in READ_ALIKE])
def test_what_two_programs_read_differently_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|IPv"):
        host_port(text)
    assert not allowed({VARIABLE: "host:*"}).permits("host", text)


@given(
    st.text(max_size=20) | st.lists(st.sampled_from(["a", ":", "1", ",", "[", "]", ".", "@", "/", "-"])).map("".join)
)
def test_no_text_ends_in_another_error(text: str) -> None:
    for parse in (host_port, url_address):
        try:
            place = parse(text)
        except ValueError:
            continue
        assert host_port(str(place)) == place
        assert text.isascii()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://login.example/oauth2/token", "login.example:443"),
        ("http://login.example:8080", "login.example:8080"),
        ("https://[fd00::1]/token?x=1", "[fd00::1]:443"),
        ("https://a@login.example/", None),
        ("https://evil\\@login.example/", None),
        ("https://evil#.login.example/", None),
        ("https://evil?.login.example/", None),
        ("https://evil.test\uff0f.example.net", None),
        ("https://login.example/a b", None),
        ("https://login.example/\n", None),
        ("https:///login.example", None),
        ("HTTPS://login.example", None),
        ("ftp://login.example", None),
        ("${env:URL}", None),
        ("", None),
    ],
)
def test_a_token_endpoint_has_one_host(url: str, place: str | None) -> None:
    if place is None:
        with pytest.raises(ValueError, match="host"):
            url_address(url)
    else:
        assert str(url_address(url)) == place


@pytest.mark.parametrize("parse", [host_port, url_address])
@pytest.mark.parametrize("text", ["me:c4nary@east:9092", "https://me:c4nary@east/t", "a:1,me:c4nary@b:1", "c4nary@:@x"])
def test_no_message_shows_the_login_of_an_address(parse: Callable[[str], HostPort], text: str) -> None:
    with pytest.raises(ValueError, match="host") as refused:
        parse(text)
    assert "c4nary" not in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "address", "fits"),
    [
        ("*.example.net", "east.example.net:9093", True),
        ("*.example.net", "East.Example.NET.:9093", True),
        ("*.example.net", "example.net:9093", False),
        ("*.example.net", "east.example.net.evil:9093", False),
        ("*.example.net", "evil:1,east.example.net:9093", False),
        ("*.1:39050", "127.0.0.1:39900,127.0.0.1:39050", False),
        ("east:9093", "east:9093", True),
        ("east:9093", "east:9094", False),
        ("east:*", "east:9094", True),
        ("*", "east.example:9094", True),
        ("east.*.net", "east.example.net:1", True),
        ("east.*.net", "east.example.net.evil.net:1", False),
        ("b-*.kafka.example", "b-1.of.kafka.example:1", True),
        ("10.*", "10.0.0.1:1", True),
        ("10.*", "10.evil.example:1", False),
        ("kafka-*", "kafka-1:1", True),
        ("kafka-*", "kafka-1.evil:1", False),
        ("[fd00::1]:9092", "[FD00:0::1]:9092", True),
        ("[fd00::1]", "[fd00::1]:9092", True),
        ("[fd00::*]", "[fd00::1]:9092", True),
        ("[fd00::1]:9092", "[fd00::2]:9092", False),
        ("[fd00::1]:9092", "d:9092", False),
        ("[ab].example.net", "a.example.net:1", True),
    ],
)
def test_a_pattern_names_whole_hosts(pattern: str, address: str, fits: bool) -> None:
    assert allowed({VARIABLE: f"host:{pattern}"}).permits("host", address) == fits


@pytest.mark.parametrize("word", ["host:https://x", "host:a,b", "host:a@b", "host:a/b", "host:a:b", "host:a:1:2"])
def test_a_word_that_names_no_host_is_reported(word: str) -> None:
    with pytest.raises(ValueError, match="after host:"):
        allowed({VARIABLE: word})


def test_the_hand_over_has_the_environments_pattern() -> None:
    environment, mirror = (json.dumps(schema(name)) for name in ("environment", "mirror"))
    pattern = schema("environment")["$defs"]["cluster"]["properties"]["bootstrap_servers"]["items"]["pattern"]
    assert json.dumps(pattern) in environment
    assert json.dumps(pattern) in mirror
