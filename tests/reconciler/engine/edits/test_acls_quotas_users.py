"""What an edit of access rules, quotas and users means; and that no part of a topology is edited silently."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.engine.edits.compare import compare
from reconciler.model.changes import Risk
from reconciler.model.environment.hooks import CutoverHook, HookKind
from reconciler.model.environment.rollout import Rollout, RolloutWave
from reconciler.model.environment.topology import Protection, Rules, Tombstone, Topology
from reconciler.model.principals import (
    AccessRole,
    AccessRule,
    ExactRule,
    Mechanism,
    NamePattern,
    Operation,
    Permission,
    Quota,
    ResourceType,
    ScramUser,
    entity,
)
from reconciler.model.reports.edit import Sign
from reconciler.render.reports.edit import comparison_verdict
from tests.support.builders import cluster
from tests.support.documents.edits import AGAINST, fields, shop, with_flow, with_topic

CONSUMER = AccessRule(1, "User:app", ("east",), AccessRole.CONSUMER, topics=(NamePattern("orders"),))
LIMIT = Quota(1, ("east",), entity({"user": "app"}), {"consumer_byte_rate": 1048576.0})
USER = ScramUser(1, ("east",), "app", version=1, password="${env:APP}")
EDITS: dict[str, Callable[[Topology], Topology]] = {
    "clusters": lambda one: replace(one, clusters={**one.clusters, "north": cluster("north")}),
    "topics": lambda one: with_topic(one, "orders", partitions=9),
    "flows": lambda one: with_flow(one, lanes=7),
    "mirrors": lambda one: replace(one, mirrors={"west": replace(one.mirrors["west"], parallelism=9)}),
    "deletions": lambda one: replace(one, deletions=(Tombstone("east", "old", "id", "gone", "2099-01-01"),)),
    "access": lambda one: replace(one, access=(CONSUMER,)),
    "access_declared": lambda one: replace(one, access_declared=True),
    "rules": lambda one: replace(one, rules=Rules(protected=(Protection("ledger"),))),
    "quotas": lambda one: replace(one, quotas=(LIMIT,)),
    "quotas_declared": lambda one: replace(one, quotas_declared=True),
    "users": lambda one: replace(one, users=(USER,)),
    "users_declared": lambda one: replace(one, users_declared=True),
    "rollout": lambda one: replace(one, rollout=Rollout((RolloutWave("all", clusters=("east", "west")),))),
    "hooks": lambda one: replace(one, hooks={"switch": CutoverHook(HookKind.FILE, "/etc/address", text="west")}),
    "moved_from": lambda one: replace(one, moved_from=("before",)),
}


FROM_GIT = [one.name for one in dataclasses.fields(Topology) if one.compare and one.name != "environment"]


@pytest.mark.parametrize("part", FROM_GIT)
def test_no_part_of_a_topology_is_edited_without_a_word(part: str) -> None:
    there, back = compare(shop(), EDITS[part](shop())), compare(EDITS[part](shop()), shop())
    for found in (there, back):
        assert not found.empty
        assert "nothing" not in comparison_verdict(found, AGAINST)


def test_a_right_that_is_widened_is_reported_with_both_values() -> None:
    before = replace(shop(), access=(CONSUMER,), access_declared=True)
    wide = replace(CONSUMER, topics=(NamePattern("*"),), clusters=("east", "west"))
    [item] = compare(before, replace(before, access=(wide,))).items
    assert (item.sign, item.kind, item.name) == (Sign.CHANGED, "access rule", "User:app: consumer")
    told = {field.path: field for field in item.fields}
    assert (told["topics"].before, told["topics"].after) == ("orders", "*")
    assert told["topics"].risk is Risk.MEDIUM
    assert (told["clusters"].before, told["clusters"].after) == ("east", "east, west")


def test_the_place_of_an_entry_and_the_order_of_its_lists_mean_nothing() -> None:
    two = replace(CONSUMER, number=2, topics=(NamePattern("orders"), NamePattern("pay")))
    mixed = replace(two, number=1, topics=two.topics[::-1])
    before = replace(shop(), access=(CONSUMER, two), access_declared=True)
    after = replace(shop(), access=(mixed, replace(CONSUMER, number=2)), access_declared=True)
    assert compare(before, after).empty


def test_what_a_removed_entry_leaves_behind() -> None:
    full = replace(
        shop(), access=(CONSUMER,), access_declared=True, quotas=(LIMIT,), quotas_declared=True,
        users=(USER,), users_declared=True,
    )  # fmt: skip
    emptied = replace(full, access=(), quotas=(), users=())
    means = {item.kind: item.means for item in compare(full, emptied).items}
    assert means["access rule"].startswith("rules that an apply from here made or found declared are deleted")
    assert "takes no limit away" in means["quota"]
    assert "stays on its clusters" in means["user"]
    unseen = {item.means for item in compare(full, shop()).items}
    assert unseen == {"what exists stays and is no longer compared"}


def test_a_lower_version_sets_no_password() -> None:
    newer, older = (replace(shop(), users=(replace(USER, version=version),)) for version in (3, 2))
    assert "older password would come back" in fields(compare(newer, older), "app")["version"].means


def test_an_absent_user_has_no_version_and_no_password() -> None:
    gone = replace(USER, version=0, password="", absent=True)
    found = fields(compare(replace(shop(), users=(USER,)), replace(shop(), users=(gone,))), "app")
    assert found.keys() == {"absent"}
    assert found["absent"].risk is Risk.HIGH


def test_iterations_and_mechanisms_say_what_becomes_of_logins() -> None:
    both = replace(USER, mechanisms=(Mechanism.SHA_256, Mechanism.SHA_512))
    edited = replace(USER, mechanisms=(Mechanism.SHA_512,), iterations=8192)
    found = fields(compare(replace(shop(), users=(both,)), replace(shop(), users=(edited,))), "app")
    assert found["iterations"].risk is Risk.MEDIUM
    assert found["mechanisms"].risk is Risk.HIGH
    assert "no client can log in by SCRAM-SHA-256 any more" in found["mechanisms"].means
    more = fields(compare(replace(shop(), users=(USER,)), replace(shop(), users=(both,))), "app")
    assert more["mechanisms"].risk is Risk.LOW


def test_exact_rules_limits_and_passwords_in_the_words_of_the_yaml() -> None:
    denial = ExactRule(ResourceType.TOPIC, (NamePattern("pay."),), (Operation.READ,), Permission.DENY)
    wished = replace(
        shop(),
        access=(AccessRule(1, "User:intern", ("east",), exact=denial),),
        quotas=(replace(LIMIT, limits={}, remove=("consumer_byte_rate",)),),
        users=(replace(USER, version=2),),
    )
    found = compare(replace(shop(), quotas=(LIMIT,), users=(USER,)), wished)
    rule = fields(found, "User:intern: deny on topic")
    assert rule["permission"].means == "a deny rule wins over everything that allows"
    assert rule.keys() == {
        "clusters",
        "resource",
        "names",
        "operations",
        "permission",
    }
    gone = fields(found, "user app")["consumer_byte_rate"]
    assert (gone.before, gone.after, gone.means) == ("1 MiB/s", "(not set)", "")
    assert fields(found, "app")["version"].risk is Risk.MEDIUM
