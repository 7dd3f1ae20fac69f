"""What an edit of a flow's ``copies`` means, and when it does nothing."""

from __future__ import annotations

from reconciler.engine.edits.compare import compare
from reconciler.engine.edits.edit_and_plan import EditAndPlan
from reconciler.engine.edits.effects import lead, without_effect
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.edit import FieldChange
from reconciler.resources.acls.derive_from_flows import denial
from tests.support.access.acls import env, rules
from tests.support.builders import World, world

TOPICS = "topics:\n  orders: {clusters: [east], partitions: 1}\n  pay: {clusters: [east], partitions: 1}\n"
FLOW = """
flows:
  east-to-west: {source: east, target: west, topics: [".*"], replication_factor: 1, naming: {policy: identity}%s}
"""
PLAIN, KEPT, WRITABLE = (env(FLOW % more, TOPICS) for more in ("", ", copies: read_only", ", copies: writable"))


def edited(before: Topology, after: Topology, seen: World) -> tuple[list[FieldChange], str]:
    """The fields of the flow with what they mean, and what the plan's headline begins with."""
    compared, live = compare(before, after), seen.look(after)
    effectless = without_effect(compared, EditAndPlan(before, after, seen.plan(after), live))
    return [field for item in compared.items for field in item.fields], lead(effectless)


def wrote() -> World:
    seen = world()
    seen.clusters["west"].acls = rules("allow User:app write topic orders")
    return seen


def test_whom_it_stops_and_lets_write_again() -> None:
    seen = wrote()
    [field], said = edited(PLAIN, KEPT, seen)
    assert field.means.startswith("stops other writers of 2 remote topics of declared topics")
    assert (field.risk, said) == ("medium", "")
    seen.apply(KEPT)
    [field], said = edited(KEPT, WRITABLE, seen)
    assert field.means.startswith("whom rules let write may do so again: 2 remote topics")
    assert (field.risk, said) == ("medium", "")


def test_without_rules_to_read_nothing_is_taken_back_and_the_headline_says_so() -> None:
    seen = wrote()
    seen.apply(KEPT)
    _, said = edited(KEPT, PLAIN, seen)
    assert said == "This edit lets no one write: deny rules for copies of flow east-to-west stay on west. "
    assert denial("orders", "User:app") in seen.clusters["west"].acls
    _, said = edited(KEPT, env(TOPICS), seen)
    assert "deny rules for copies of flow east-to-west stay on west" in said


def test_where_it_denies_nothing_that_is_said() -> None:
    _, said = edited(PLAIN, KEPT, world())
    assert said == "This edit has no effect in flow east-to-west (copies (not set) -> read_only): " + (
        "it changes no access rule. "
    )
