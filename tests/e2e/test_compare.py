"""``compare`` as a command: exit codes, and words that cannot be meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.commands import Ended

Cli = Callable[..., Ended]
FILES = """
clusters: {east: {bootstrap_servers: ['127.0.0.1:1']}}
topics: {orders: {clusters: [east], partitions: 3}}
"""


def folder(path: Path, text: str) -> Path:
    path.mkdir(parents=True)
    (path / "all.yaml").write_text(text)
    return path


def test_it_ends_by_what_it_found(cli: Cli, tmp_path: Path) -> None:
    staging = folder(tmp_path / "staging" / "shop", FILES.replace("east", "s"))
    prod = folder(tmp_path / "prod" / "shop", FILES)
    equal = cli("compare", staging, prod, "--map", "s=east")
    assert (equal.code, equal.out.splitlines()[0]) == (0, f"{prod} declares what {staging} does")
    differs = cli("compare", staging, prod, "--format", "json", "--out", tmp_path / "kept.json")
    assert differs.code == 2
    assert json.loads(differs.out)["equal"] is False
    assert (tmp_path / "kept.json").read_text() == differs.out
    for words, told in (
        (("--map", "s"), "--map is s"),
        (("--map", "s=east", "--map", "s=west"), "gives s two names"),
        (("--map", "t=east"), "has nothing named t"),
    ):
        ended = cli("compare", staging, prod, *words)
        assert (ended.code, told in ended.words) == (1, True), ended.words
    assert cli("compare", staging, tmp_path / "missing").code == 1
