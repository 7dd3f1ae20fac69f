"""A flow reports topics that match its expressions and that it does not carry, which would go unnoticed."""

from __future__ import annotations

from reconciler.model.plan import Plan
from reconciler.replication.handover import Naming
from tests.support.builders import cluster, flow, topic, topology, world


def told(plan: Plan) -> list[str]:
    return [note for note in plan.notes if note.startswith("flow ")]


def made(plan: Plan) -> set[str]:
    return {str(one.change.ref) for one in plan.changes if hasattr(one.change, "ref")}


def test_names_that_only_look_like_those_of_remote_topics_are_reported() -> None:
    names = [f"pay.west.{number}" for number in range(7)]
    wished = topology(*(topic(name) for name in names), topic("west.audit"), flow("east", "west", ".*"))
    [note] = told(world().plan(wished))
    assert note == (
        "flow east-to-west does not carry 8 topics of east that its expressions match: pay.west.0, pay.west.1,"
        " pay.west.2, pay.west.3, pay.west.4 and 3 more (west before a separator in its name says that its records have"
        " been on west). Another alias of the target or another naming.separator carries what the cycle rule keeps."
        " To leave them there on purpose, add them to exclude_topics of the flow; then this note is gone"
    )
    underscored = flow("east", "west", ".*", naming=Naming(separator="_"))
    carried = world().plan(topology(*(topic(name, partitions=1) for name in names), underscored))
    assert "west/east_pay.west.0" in made(carried)
    assert told(carried) == []


def test_a_topic_that_begins_with_its_own_clusters_alias_is_carried() -> None:
    seen = world()
    for name in ("east.orders", "east.payments", "other.thing", "x.east.y"):
        seen.clusters["east"].put(name)
    plan = seen.plan(topology(flow("east", "west", ".*")))
    assert {"west/east.east.orders", "west/east.east.payments", "west/east.x.east.y"} <= made(plan)
    assert told(plan) == []


def test_what_no_one_declares_is_reported_unless_a_flow_may_have_made_it() -> None:
    seen = world()
    for name in ("pay.west.orders", "west.orders", "north.west.x"):
        seen.clusters["east"].put(name)
    [note] = told(seen.plan(topology(flow("east", "west", ".*"))))
    assert "3 topics of east that its expressions match: north.west.x, pay.west.orders, west.orders (" in note
    [note, _] = told(seen.plan(topology(flow("east", "west", ".*"), flow("west", "east", "orders"))))
    assert "2 topics of east that its expressions match: north.west.x, pay.west.orders (" in note


def test_a_copy_whose_original_only_looks_like_a_remote_topic_is_reported() -> None:
    """Each hop of the name must be one of a flow, up to the target: no flow brings ``north.x`` to east."""
    seen = world("east", "west", "north")
    seen.clusters["west"].put("east.north.x")
    there, further, back = flow("east", "west", ".*"), flow("west", "north", ".*"), flow("north", "east", ".*")
    [note, *_] = (one for one in told(seen.plan(topology(there, further))) if one.startswith("flow west-to-north"))
    assert "does not carry 1 topic of west that its expressions match: east.north.x (north before a separator" in note
    notes = told(seen.plan(topology(there, further, back)))
    assert not [one for one in notes if "does not carry" in one]


def test_what_mirrormaker_2_excludes_and_its_flow_does_not_is_reported_with_the_rule() -> None:
    seen = world()
    names = ["a.replica", "mm2x.internal", "mm2-offset-syncs.west.internal", "east.checkpoints.internal", "__x", "_y"]
    for name in (*names, "a-internal"):
        seen.clusters["east"].put(name)
    [note] = told(seen.plan(topology(flow("east", "west", ".*"))))
    assert note == (
        "flow east-to-west does not carry 2 topics of east that its expressions match: a.replica (excluded by"
        r" .*\.replica, which MirrorMaker 2 excludes); mm2x.internal (excluded by mm2.*\.internal, which MirrorMaker 2"
        " excludes). To leave them there on purpose, add them to exclude_topics of the flow; then this note is gone"
    )
    said = flow("east", "west", ".*", exclude_topics=(r".*\.replica", r"mm2x.*"))
    assert told(seen.plan(topology(said))) == []
    older = flow("east", "west", ".*", exclude_topics=said.exclude_topics, naming=Naming("default-before-4.0"))
    [note] = told(seen.plan(topology(older)))
    assert "1 topic of east that its expressions match: a-internal (internal topics never travel)" in note


def test_a_name_of_our_own_topics_under_a_foreign_prefix_is_reported() -> None:
    """MirrorMaker 2 carries it, and an application may have chosen such a name."""
    seen = world()
    for name in ("team-a.__mirror_offsets", "app__reconciler"):
        seen.clusters["east"].put(name)
    declared = topology(cluster("east", topic_prefix="team-a."), cluster("west"), flow("east", "west", ".*"))
    [note] = [line for line in told(seen.plan(declared)) if "does not carry" in line]
    assert "1 topic of east that its expressions match: app__reconciler (internal topics never travel)" in note


def test_remote_topics_on_their_way_back_are_no_news() -> None:
    wished = topology(topic("orders", "east", "west"), flow("east", "west", ".*"), flow("west", "east", ".*"))
    assert told(world().plan(wished)) == []


def test_a_flow_without_any_topic_is_reported() -> None:
    assert told(world().plan(topology(flow("east", "west", "orders")))) == [
        "flow east-to-west matches no topic on east yet"
    ]


def test_a_flow_that_matches_only_what_has_been_on_its_target_says_so() -> None:
    """It matches something, and will never carry it."""
    seen = world()
    seen.clusters["west"].put("east.orders")
    wished = topology(topic("orders", "east"), flow("east", "west", "orders"), flow("west", "east", ".*orders"))
    [note] = told(seen.plan(wished))
    assert note == (
        "flow west-to-east carries no topic of west yet: what its expressions match there has been on east, as its"
        " name says (the cycle rule): east.orders"
    )
