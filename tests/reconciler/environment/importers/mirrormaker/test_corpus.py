"""Configurations as they are in the world: each becomes the right flow, or is refused by the name of a setting.

``tests/golden/mirrormaker/corpus.txt`` has them, shortened and written again after public repositories: settings,
classes and idioms are theirs, hosts, users and secrets are not. Behind each stands its ending.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.backends.files import read_environment
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Flow, Topology
from reconciler.operations.importers.mirrormaker import run
from reconciler.replication.policy import policy_word
from tests.support.paths import ROOT

CORPUS = ROOT / "tests" / "golden" / "mirrormaker" / "corpus.txt"
ENDINGS = {"properties": ".properties", "json": ".json", "strimzi": ".yaml"}
_SETTING = re.compile(r"\b[\w>-]+(\.[\w>-]+)+|bootstrapServers|authentication|sourceConnector|JSON|clusters")


@dataclass(frozen=True)
class Public:
    kind: str
    source: str
    text: str
    ending: str


def corpus() -> Iterator[Public]:
    for part in re.split(r"^=== ", CORPUS.read_text("utf-8"), flags=re.M)[1:]:
        head, _, rest = part.partition("\n")
        text, _, ending = rest.partition("\n>>>\n")
        kind, _, source = head.partition(" ")
        yield Public(kind, source, f"{text}\n", ending.rstrip("\n"))


ALL = list(corpus())


def ending(one: Public, folder: Path) -> str:
    """What the import ends in: its flows, or its refusal."""
    file = folder / f"mm2{ENDINGS[one.kind]}"
    file.write_text(one.text, "utf-8")
    try:
        told = run([file], folder / "env")
    except ReconcilerError as error:
        assert not (folder / "env").exists()
        return f"refused: {error.what}"
    topology = load(read_environment(folder / "env"), "env")
    positions = [line.strip() for line in told.splitlines() if "import-positions" in line]
    words = [said(topology, flow) for flow in topology.flows.values()]
    return "\n".join([*words, *(line.replace(str(folder / "env"), "ENV") for line in positions)])


def said(topology: Topology, flow: Flow) -> str:
    ends = [f"{name} {','.join(topology.clusters[name].bootstrap_servers)}" for name in (flow.source, flow.target)]
    groups = (
        f"{' '.join(flow.groups.include)} but {' '.join(flow.groups.exclude)}" if flow.groups.sync_offsets else "no"
    )
    return (
        f"{flow.name}: {' -> '.join(ends)}; topics {' '.join(flow.topics)} but {' '.join(flow.exclude_topics)}; "
        f"naming {policy_word(flow.naming.policy)} {flow.naming.separator}; groups {groups}; "
        f"factor {flow.replication_factor}; start {flow.start.kind}"
    )


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.source)
def test_a_public_configuration_ends_in_its_flow_or_by_the_name_of_a_setting(one: Public, tmp_path: Path) -> None:
    found = ending(one, tmp_path)
    assert "hunter2" not in found
    if os.environ.get("UPDATE_GOLDEN"):
        whole = CORPUS.read_text("utf-8")
        begin = whole.index(f"=== {one.kind} {one.source}\n")
        end = whole.find("\n=== ", begin + 1) + 1 or len(whole)
        CORPUS.write_text(
            whole[:begin] + f"=== {one.kind} {one.source}\n{one.text}>>>\n{found}\n" + whole[end:], "utf-8"
        )
    else:
        assert found == one.ending
    if found.startswith("refused: "):
        for line in found.removeprefix("refused: ").splitlines():
            assert _SETTING.search(line.partition(": ")[2]), line


def test_there_are_enough_of_each_kind() -> None:
    kinds = [one.kind for one in ALL]
    assert len(ALL) >= 50
    assert min(kinds.count(kind) for kind in ENDINGS) >= 10
    assert len({one.source for one in ALL}) == len(ALL)
