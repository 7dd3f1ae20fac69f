"""adopt: whatever rules a cluster holds, a plan of the files changes none of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.plan.build import plan
from reconciler.environment.adopt.entries import AdoptOptions, adopt, adopt_access, adopt_users
from reconciler.environment.adopt.write import texts
from reconciler.environment.load import load
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Cluster
from reconciler.model.live import LiveState, LiveUsers
from reconciler.model.principals import (
    CLUSTER_NAME,
    AclBinding,
    Mechanism,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from reconciler.operations.adopt.run import is_empty
from tests.support.access.acls import rule, rules
from tests.support.fakes.cluster import FakeCluster

EAST = Cluster("east", ("a.example:9092",), cluster_id="id-of-east")
NAMES = st.sampled_from(["orders", "pay.", "*", "on", "a b", 'q"q', "{prefix: x}", "ünder", "x\x00y", "12", "null"])
PRINCIPALS = st.sampled_from(["User:a", "User:*", "User:CN=a,O=b c", "Group:ops", "user:a", "User:\u2028", "nobody"])
BINDINGS = st.builds(
    AclBinding,
    st.sampled_from(ResourceType),
    NAMES | st.just(CLUSTER_NAME),
    st.sampled_from(PatternType),
    PRINCIPALS,
    st.sampled_from(["*", "10.0.0.1", "::1", "app.example"]),
    st.sampled_from(Operation),
    st.sampled_from(Permission),
)


@given(st.frozensets(BINDINGS, max_size=25))
def test_a_plan_of_adopted_rules_changes_nothing_and_none_is_lost(acls: frozenset[AclBinding]) -> None:
    live = FakeCluster("east")
    live.acls = set(acls)
    seen = live.read()
    access = live.read_access()
    made = adopt(EAST, replace(seen, access=access), AdoptOptions())
    wished = load({f"env/east/{path}": text for path, text in texts(made).items()}, "env")
    planned = plan(wished, LiveState({"east": replace(seen, access=access)}, {}))
    assert is_empty(planned)
    assert made.acls + len(made.access.left_out) == len(acls)


def test_equal_rules_are_put_together() -> None:
    found = adopt_access(
        "east",
        rules(
            "allow User:a read topic orders",
            "allow User:a describe topic orders",
            "allow User:a read topic pay*",
            "allow User:a describe topic pay*",
            "allow User:a read topic other from 10.0.0.1",
            "allow User:a read topic other from 10.0.0.2",
        ),
    )
    assert len(found.entries) == 2
    assert {rule.hosts for rule in found.entries} == {("*",), ("10.0.0.1", "10.0.0.2")}


def test_an_unreadable_ownership_record_leaves_access_out_and_says_so() -> None:
    live = FakeCluster("east")
    live.acls = {rule("allow User:a read topic orders")}
    live.record_unreadable = Unknown("record", "may not read __reconciler", "Allow it.")
    made = adopt(EAST, replace(live.read(), access=live.read_access()), AdoptOptions())
    assert not made.access.entries
    assert any("may not read __reconciler" in note for note in made.notes)


def test_names_that_differ_in_punctuation_or_case_get_variables_of_their_own() -> None:
    """Also on another cluster, which has only some of them: one environment keeps the users of both."""
    names = ["svc.a", "svc-a", "svc_a", "SVC-A", "svc_a_2", "svc-a-2", "other", "é", "ü"]

    def passwords(cluster: str, *there: str) -> dict[str, str]:
        live = LiveUsers({name: {Mechanism.SHA_512: 4096} for name in there}, {})
        return {user.name: user.password for user in adopt_users(cluster, live).entries}

    east = passwords("east", *names)
    assert set(east) == set(names)
    assert len(set(east.values())) == len(names)
    assert east["other"] == "${env:TODO_PASSWORD_OF_OTHER}"
    assert east["svc-a"] == "${env:TODO_PASSWORD_OF_SVC_A}"
    assert passwords("west", "svc_a", "svc.a") == {name: east[name] for name in ("svc_a", "svc.a")}
