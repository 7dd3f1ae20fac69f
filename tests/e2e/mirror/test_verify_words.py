"""verify with wrong words on the command line, or without a cluster: words, exit code 1, and nothing started."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.commands import Ended, Write

TEXT = (
    "clusters:\n  east: {bootstrap_servers: [127.0.0.1:1]}\n  west: {bootstrap_servers: [127.0.0.1:2]}\n"
    "flows:\n  f: {source: east, target: west, topics: ['a'], replication_factor: 1}\n"
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("g",), "no flow g"),
        (("f", "--from", "yesterday"), "--from 'yesterday' is not a time"),
        (("f",), "127.0.0.1:1"),
    ],
)
def test_it_ends_with_what_is_wrong(cli: Callable[..., Ended], write: Write, words: tuple[str, ...], said: str) -> None:
    env = write(TEXT)
    ended = cli("verify", env, *words)
    assert ended.code == 1
    assert said in ended.words
    assert not (env.parent / ".reconciler" / env.name).exists()
