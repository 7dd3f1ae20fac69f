"""What undoing a wave of access changes gives back: all of it, to whom it was, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import Unknown
from reconciler.model.changes import AclChange, CreateAcl, DeleteAcl, Grant, Reason, Why
from reconciler.model.live import Before, LiveAccess, Made
from reconciler.resources.acls.authorizer.lockout import carried_out
from reconciler.resources.acls.probe.verdict import before_of, by_hand, put_back
from tests.support.access.acls import rule
from tests.support.builders import world

ACLS = st.sampled_from(
    [rule(f"{word} User:{who} read topic {name}") for word in ("allow", "deny") for who in "ab" for name in ("t", "u*")]
)


OWNER = Made("title", "declared")


@st.composite
def waves(draw: st.DrawFn) -> tuple[LiveAccess, list[AclChange]]:
    there = draw(st.frozensets(ACLS))
    owned = dict.fromkeys(draw(st.frozensets(ACLS)), OWNER)
    pending = {
        acl: Before(draw(st.booleans()), draw(st.sampled_from([None, OWNER]))) for acl in draw(st.frozensets(ACLS))
    }
    why = Reason(Why.DECLARED, "test")
    changes: list[AclChange] = [
        draw(st.sampled_from([CreateAcl, DeleteAcl]))("east", acl, Grant("t", "declared"), why)
        for acl in sorted(draw(st.frozensets(ACLS, min_size=1)))
    ]
    return LiveAccess(there, owned, pending=pending), changes


@given(waves(), st.data())
def test_undoing_any_prefix_of_a_wave_gives_exactly_what_was_there_before(
    wave: tuple[LiveAccess, list[AclChange]], data: st.DataObject
) -> None:
    access, changes = wave
    access = replace(access, pending={})
    assert isinstance(access.acls, frozenset)
    before = before_of(changes, access)
    prefix = changes[: data.draw(st.integers(0, len(changes)))]
    assert put_back(carried_out(access.acls, prefix), before) == access.acls


@given(waves())
def test_doing_and_undoing_leaves_the_ownership_record_as_it_was(wave: tuple[LiveAccess, list[AclChange]]) -> None:
    access, changes = wave
    assert isinstance(access.acls, frozenset)
    assert not isinstance(access.owned, Unknown)
    seen = world("east")
    fake = seen.clusters["east"]
    fake.acls, fake.owned = set(access.acls), dict(access.owned)
    before = before_of(changes, replace(access, pending={}))
    for change in changes:
        fake._rule(change)
    fake.put_back(before)
    assert (frozenset(fake.acls), fake.owned) == (access.acls, access.owned)


@given(waves())
def test_what_was_before_a_wave_that_was_cut_off_is_not_forgotten(
    wave: tuple[LiveAccess, list[AclChange]],
) -> None:
    access, changes = wave
    assert isinstance(access.acls, frozenset)
    first = before_of(changes, replace(access, pending={}))
    cut_off = LiveAccess(carried_out(access.acls, changes), access.owned, pending=first)
    assert before_of(changes, cut_off) == first


def test_commands_are_what_kafka_acls_takes() -> None:
    assert by_hand(rule("allow User:x describe_configs topic pay.*"), True, "b:1") == (
        "kafka-acls.sh --bootstrap-server b:1 --add --allow-principal 'User:x' --operation DescribeConfigs"
        " --topic pay. --resource-pattern-type prefixed"
    )
    assert by_hand(rule("deny User:x alter cluster kafka-cluster from 10.0.0.1"), False, "b:1") == (
        "kafka-acls.sh --bootstrap-server b:1 --remove --force --deny-principal 'User:x' --deny-host 10.0.0.1"
        " --operation Alter --cluster"
    )
