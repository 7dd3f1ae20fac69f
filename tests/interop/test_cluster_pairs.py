"""Which flows MirrorMaker 2 runs of a properties file, and which topics and groups each takes: what ``import`` writes
beside its own classes."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.releases import MIRRORMAKER

from reconciler.environment.importers.mirrormaker.environment import environment
from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.topology import Flow, Topology
from reconciler.replication.groups import make_group_selector
from reconciler.resources.flows.routes import selector_of
from tests.support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]

ENDS = ("clusters=A,B", "A.bootstrap.servers=a:1", "B.bootstrap.servers=b:1")
NAMES = ("enabled", "A->B.enabled", "emit.heartbeats.enabled", "A->B.emit.heartbeats.enabled")


def answered(lines: str, *arguments: object) -> list[str]:
    program, classes = Path(__file__).parent / "ClusterPairs.java", f"{jars.ensure(release=MIRRORMAKER)}/*"
    command = [prerequisites.java(), "-XX:TieredStopAtLevel=1", "-cp", classes, str(program), *map(str, arguments)]
    done = subprocess.run(command, input=lines, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_flows_are_those_that_mirrormaker_2_runs() -> None:
    asked = [
        (*ENDS, *(f"{name}={value}" for name, value in zip(NAMES, values, strict=True) if value))
        for values in itertools.product(("", "true", "false"), repeat=len(NAMES))
    ]
    lines = "".join("\t".join(settings) + "\n" for settings in asked)
    answers = [line.removeprefix("pairs ") for line in answered(lines) if line.startswith("pairs ")]
    for settings, answer in zip(asked, answers, strict=True):
        theirs = set(filter(None, answer.split(",")))
        ours = environment({"mm2.properties": "\n".join(settings)})
        assert set(ours.flows) == theirs, settings
        assert bool(ours.notes.mistakes) == (not theirs), settings
    assert sum(bool(answer) for answer in answers) > 20


GOLDEN = ROOT / "tests" / "golden" / "mirrormaker"
NAMES_ASKED = (
    "orders", "heartbeats", "x.heartbeats", "__consumer_offsets", "__x", "_schemas", "a.internal", "app-internal",
    "mm2-configs.a.internal", "x.replica", "x-replica", "connect-configs", "connect-x", "console-consumer-1",
    "my-group", "test-topic", "foo.bar", "orders-1", "prod.orders.v1", "dev_orders", "a" * 240,
)  # fmt: skip


def accepted() -> Iterator[tuple[str, Topology]]:
    """Public files of properties that become an environment."""
    corpus = re.split(r"^=== ", (GOLDEN / "corpus.txt").read_text("utf-8"), flags=re.M)[1:]
    texts = [part.partition("\n")[2].partition("\n>>>\n")[0] for part in corpus if part.startswith("properties ")]
    for text in (*texts, *(path.read_text("utf-8") for path in sorted(GOLDEN.glob("*.properties")))):
        made = environment({"mm2.properties": text})
        if not made.notes.mistakes and "com.amazonaws" not in text:  # whose policy is in no jar here
            with suppress(TopologyError):  # placeholders that look like names
                yield text, load(made.texts(), "e")


def names_of(flow: Flow) -> Iterator[str]:
    for alias in (flow.source, flow.target):
        yield from (f"{alias}.orders", f"{alias}_orders", f"{alias}.checkpoints.internal", f"orders.{alias}")
    for expression in (*flow.topics, *flow.exclude_topics):
        name = re.sub(r"\.[*+]", "z", expression).replace("\\", "")
        if re.fullmatch(r"[A-Za-z0-9._-]+", name):
            yield name


def is_known(flow: Flow, text: str, name: str, theirs: str) -> bool:
    """Where they differ on purpose, and the import says so, or a release does otherwise."""
    return (
        name.endswith("heartbeats")  # of other flows; MirrorMaker 2 takes them although it writes none itself
        or (theirs != "-" and "topics.blacklist" in text)  # which 4.0 ignores, and earlier releases do not
        or re.search(r"separator *= *$", text, re.M) is not None  # "" splits names into letters there
    )


def test_the_topics_and_groups_of_public_files_are_those_of_mirrormaker_2(tmp_path: Path) -> None:
    known: dict[str, tuple[str, Topology]] = {}
    for number, (text, topology) in enumerate(accepted()):
        file = tmp_path / f"{number}.properties"
        file.write_text(text, "utf-8")
        known[str(file)] = (text, topology)
    flows = [flow for _, topology in known.values() for flow in topology.flows.values()]
    names = sorted({*NAMES_ASKED, *(name for flow in flows for name in names_of(flow))})
    (tmp_path / "names").write_text("".join(f"{name}\n" for name in names), "utf-8")
    wrong: list[tuple[str, ...]] = []
    asked: set[tuple[str, str]] = set()
    for line in answered("", tmp_path / "names", *known):
        if not line.startswith("asked\t"):
            continue
        _, place, title, name, remote, group = line.split("\t")
        text, topology = known[place]
        flow = topology.flows[title]
        asked.add((place, title))
        selector = selector_of(flow)
        ours = "-" if selector.why_not(name) is not None else selector.remote_name(name)
        if ours != remote and not is_known(flow, text, name, remote):
            wrong.append((title, name, ours, remote))
        if flow.groups is not None and "groups.blacklist" not in text:  # which 4.0 ignores
            taken = make_group_selector(flow.groups.include, flow.groups.exclude).why_not(name) is None
            if taken != (group == "true"):
                wrong.append((title, f"group {name}", str(taken), group))
    assert wrong == []
    assert asked == {(place, flow.name) for place, (_, topology) in known.items() for flow in topology.flows.values()}
    assert len(asked) * len(names) > 5_000
