"""Ports: the layout never hands out one twice, and a taken one is named."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from reconciler_sandbox import commands
from reconciler_sandbox.brokers import ports, processes
from reconciler_sandbox.brokers import up_down as brokers
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.profiles import BLOCK, HOST, PROFILES, layout


@pytest.fixture
def taken() -> Iterator[int]:
    """First port of a block, listened on by this process. Somebody else may take it just before: then another one."""
    for _ in range(20):
        base, reserved = ports.reserve_block()
        with reserved, socket.socket() as server:
            try:
                server.bind((HOST, base))
            except OSError:
                continue
            server.listen(1)
            yield base
            return
    raise AssertionError("no block has a free first port")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("base", [None, 39000])
def test_no_port_is_handed_out_twice(profile: str, base: int | None) -> None:
    brokers_of = layout(PROFILES[profile], base)
    used = [port for some in brokers_of.values() for broker in some for port in broker.ports]
    assert len(used) == len(set(used))
    if base is not None:
        assert all(base <= port < base + BLOCK - 1 for port in used)


def test_default_ports() -> None:
    brokers_of = layout(PROFILES["plain"])
    assert {name: some[0].ports for name, some in brokers_of.items()} == {
        "east": (19092, 19093),
        "west": (29092, 29093),
    }


def test_a_taken_port_is_named_with_who_listens_and_nothing_is_started(taken: int, tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as refused:
        brokers.bring_up(brokers.Launch(PROFILES["plain"], tmp_path, taken))
    words = str(refused.value)
    assert f"port {taken} " in words
    assert f"process {os.getpid()} " in words
    assert "SANDBOX_PORT=" in words
    assert not processes.find(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_reserved_block_is_not_given_to_a_second_sandbox() -> None:
    first, one = ports.reserve_block()
    second, other = ports.reserve_block()
    with one, other:
        assert first != second
        assert all(ports.free(port) for port in range(first, first + BLOCK - 1))


@pytest.mark.parametrize(
    ("argument", "variable", "chosen"), [(None, "", None), (None, "39000", 39000), (40000, "39000", 40000)]
)
def test_the_argument_wins_over_the_variable(argument: int | None, variable: str, chosen: int | None) -> None:
    assert commands.chosen_port(argument, {"SANDBOX_PORT": variable}) == chosen


@pytest.mark.parametrize("wrong", ["80", "65500", "x", "-1"])
def test_a_base_that_cannot_be_is_refused(wrong: str) -> None:
    with pytest.raises(SandboxError) as refused:
        commands.chosen_port(None, {"SANDBOX_PORT": wrong})
    assert wrong in str(refused.value)
