"""Which topics travel, and under which name: our decisions beside those of MirrorMaker 2's own source connector.

The table is made of names, naming policies, separators, aliases and expressions. Each name is one that somebody gives a
topic: with an alias in front, as a part of a word, behind other hops, doubled, empty; MirrorMaker 2's own topics, and
those that look like them.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.releases import MIRRORMAKER

from reconciler.replication.policy import EXCLUDED_TOPICS, heartbeats_expression, make_selector

pytestmark = pytest.mark.slow

ALIASES = (
    ("prod", "dr"),
    ("dr", "prod"),
    ("eu.west", "eu"),
    ("a", "a-b"),
    ("source", "target"),
    ("eu", "eu.west"),
    ("a.b", "a_b"),
    ("-", "x-"),
    ("b..c", "b"),
    ("p", "p" * 20),
)
SEPARATORS = (".", "_", "-", "--", "..")
EXPRESSIONS = (".*", r"(prod|other).*", r"[a-z.]+\.orders,heartbeats,.*internal", r"(?!prod)[^_].*")
OWN_EXCLUSION = r"scratch.*"


@dataclass(frozen=True)
class AskedFlow:
    policy: str
    separator: str
    source: str
    target: str
    topics: str
    heartbeats: bool
    internal: bool = True
    """Whether internal topics have the separator, too (KIP-949)."""

    @property
    def line(self) -> str:
        excluded = ",".join((*EXCLUDED_TOPICS, OWN_EXCLUSION))
        beats = str(self.heartbeats).lower()
        naming = (self.policy, self.separator, str(self.internal).lower())
        return "\t".join((*naming, self.source, self.target, self.topics, excluded, beats))


def _flows() -> Iterator[AskedFlow]:
    for policy, separator, (source, target), topics in itertools.product(
        ("default", "identity"), SEPARATORS, ALIASES, EXPRESSIONS
    ):
        flow = AskedFlow(policy, separator, source, target, topics, heartbeats=topics != EXPRESSIONS[1])
        yield flow
        if topics == EXPRESSIONS[0]:
            yield replace(flow, internal=False)


def _names(flow: AskedFlow) -> list[str]:
    own, other, third, between = flow.source, flow.target, "north", flow.separator
    heads = [own, other, third, own.upper(), f"x{own}", f"{other}x", f"{own}{between}{other}", f"{other}{between}{own}"]
    heads += [f"{own}{between}{own}", f"{third}{between}{other}{between}{third}", f"{between}{other}", own[:1]]
    tails = ["orders", "heartbeats", "orders.eu", "orders_eu", f"orders{between}{other}", "replica", "x.replica"]
    tails += ["internal", "a-internal", f"checkpoints{between}internal", "myheartbeats", f"{between}orders"]
    tails += ["x.checkpoints.internal"]
    names = [*heads, *tails, *(f"{head}{between}{tail}" for head in heads for tail in tails)]
    names += ["scratch", "other.thing", "__consumer_offsets", "__x", "_schemas", ".hidden", "mm2internal", "mm2"]
    names += [f"mm2-offset-syncs{between}{other}{between}internal", "mm2-configs.x.internal", "mm2x.internal"]
    names += ["app-repartition-internal", "app.changelog.internal", f"{other}orders", f"orders{other}", f"{other}2.x"]
    # Separators where no part of a name is: at an end, doubled, alone.
    names += [f"{head}{between}" for head in (own, other, third, "orders", f"{other}{between}x")]
    names += [f"{head}{between}{between}orders" for head in ("", own, other, third)]
    names += [
        f"{own}{between}{between}{other}{between}orders",
        f"orders{between}{between}",
        f"{between}{other}{between}",
    ]
    names += ["a..b", "a.", "-", "_", "-.-", "a_.b", f"{between}heartbeats", f"heartbeats{between}", "heartbeats.x"]
    names += [f"{other}{between}{other}{between}x", f"{own}{between}{own}{between}{other}{between}x", f"{third}{other}"]
    return [name for name in dict.fromkeys(names) if name not in ("", ".", "..")]


def _only_separators_follow(flow: AskedFlow, name: str) -> bool:
    """The one place where we know better, since records would come back: see DefaultReplicationPolicy."""
    rest = name
    while flow.separator in rest:
        _, _, rest = rest.partition(flow.separator)
        if not rest.replace(flow.separator, ""):
            return True
    return False


@pytest.mark.parametrize("of", [3, pytest.param(1, marks=pytest.mark.long)])
def test_every_decision_is_that_of_mirrormaker_2(of: int) -> None:
    """Of one flow in three by day: each policy, separator, pair of aliases and expression is among them."""
    asked = [(flow, _names(flow)) for flow in list(_flows())[::of]]
    lines = [line for flow, names in asked for line in (flow.line, *names)]
    program = Path(__file__).parent / "TopicDecisions.java"
    classes = f"{jars.ensure(release=MIRRORMAKER)}/*"
    command = [prerequisites.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classes, str(program)]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    theirs = iter(done.stdout.splitlines())
    wrong: list[tuple[object, ...]] = []
    better: list[tuple[object, ...]] = []
    carried = decided = 0
    for flow, names in asked:
        selector = make_selector(
            flow.topics.split(","), [OWN_EXCLUSION], flow.policy, flow.separator, flow.source, flow.target,
            heartbeats=flow.heartbeats, internal_separator=None if flow.internal else ".",
        )  # fmt: skip
        for name in names:
            ours = "-" if (why := selector.why_not(name)) is not None else selector.remote_name(name)
            answer = next(theirs)
            decided += 1
            carried += answer != "-"
            if ours != answer:
                (better if ours == "-" and _only_separators_follow(flow, name) else wrong).append(
                    (flow, name, ours, why, answer)
                )
    assert next(theirs, None) is None
    assert wrong == [], wrong[:5]
    assert decided > 90_000 / of
    assert 0.2 < carried / decided < 0.8, "the table must be worth asking"
    assert len(better) < decided / 100, better[:5]


def test_a_topic_that_begins_with_its_own_clusters_alias_travels() -> None:
    selector = make_selector([".*"], [], "default", ".", "prod", "dr")
    assert selector.why_not("prod.orders") is None
    assert selector.remote_name("prod.orders") == "prod.prod.orders"


def test_an_expression_carries_the_heartbeats_of_others_as_mirrormaker_2_does() -> None:
    """A flow that writes none itself. What is carried with them is held against MirrorMaker 2 above."""
    carried = 0
    for flow in _flows():
        place = (flow.policy, flow.separator, flow.source, flow.target)
        theirs = make_selector(flow.topics.split(","), [OWN_EXCLUSION], *place, heartbeats=True)
        ours = make_selector([*flow.topics.split(","), heartbeats_expression(flow.separator)], [OWN_EXCLUSION], *place)
        for name in _names(flow):
            if flow.separator[0] * 3 in name:  # where a doubled separator begins is not told by an expression
                continue
            assert ours.why_not(name) == theirs.why_not(name), (flow, name)
            carried += theirs.why_not(name) is None and name.endswith("heartbeats")
    assert carried > 1_000
