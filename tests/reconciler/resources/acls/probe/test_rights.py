"""A probe asks as our own logins: what one lost meanwhile, and who cannot be asked."""

from __future__ import annotations

import pytest

from reconciler.engine.apply.limits import exit_code
from reconciler.errors import ExitCode
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.reports.probe import ProbeVerdict
from reconciler.resources.acls.probe.verdict import by_hand
from tests.support.access.acls import rule
from tests.support.access.probes import VIEWS, access_of, run, strangers
from tests.support.access.secured import ROLES, ran, secured

OWN_DENIAL = rule("deny User:apply alter cluster kafka-cluster")


def plus(*entries: str) -> Topology:
    return secured(roles=ROLES + "".join(f"  - {one}\n" for one in entries))


CONSUMER = '{role: consumer, principal: "User:late", clusters: [east], topics: [orders], groups: []}'


LATE = rule("allow User:late read topic orders")


def test_who_lost_alter_meanwhile_learns_what_to_put_back_by_whom() -> None:
    seen = ran(secured())
    east = seen.clusters["east"]

    def strike() -> None:
        east.acls.add(OWN_DENIAL)
        east.altering = False

    ended = run(seen, plus(CONSUMER), lambda: east.at_call(VIEWS, strike))
    assert ended.results[str(LATE)] == "left"
    assert LATE in east.acls
    assert exit_code(ended.outcomes, ended.plan) is ExitCode.PARTIAL
    for word in (
        "1 NOT undone",
        "apply principal User:apply may no longer do what it works with: alter on cluster",
        by_hand(OWN_DENIAL, False, "east:9092"),
        by_hand(LATE, False, "east:9092"),
        "a principal with Alter on the cluster",
    ):
        assert word in ended.words, ended.words
    east.acls.discard(OWN_DENIAL)
    east.altering = True
    assert run(seen, plus(CONSUMER)).results[str(LATE)] == "done", "it continues from there"
    assert seen.plan(plus(CONSUMER)).exit_code is ExitCode.DONE


def test_a_super_user_loses_nothing_by_a_denial() -> None:
    seen = ran(secured())
    theirs = strangers(seen, "deny User:apply alter cluster kafka-cluster")
    assert run(seen, plus(CONSUMER), theirs, super_users=["User:apply"]).results[str(LATE)] == "done"


def test_who_is_no_super_user_any_more_is_reported_by_the_brokers_alone() -> None:
    seen, bosses = ran(secured()), ["User:apply"]
    east = seen.clusters["east"]
    apply_on_both = '"User:apply", clusters: [east, west]'
    roles = ROLES.replace(apply_on_both, apply_on_both.replace("east, ", ""))
    wished = secured(roles=f"{roles}  - {CONSUMER}\n")
    east.acls = {one for one in east.acls if one.principal != "User:apply"}
    ended = run(seen, wished, lambda: east.at_call(VIEWS, bosses.clear), super_users=bosses)
    assert ended.results[str(LATE)] == "undone"
    assert "alter on cluster: the brokers deny it" in ended.words


@pytest.mark.parametrize("no_login", [(), (Principal.MIRROR,)])
def test_a_mirror_that_lost_its_right_meanwhile_takes_the_wave_back(no_login: tuple[Principal, ...]) -> None:
    seen = ran(secured())
    theirs = rule("deny User:mirror read topic orders")
    before = access_of(seen)
    ended = run(seen, plus(CONSUMER), strangers(seen, "deny User:mirror read topic orders"), no_login=no_login)
    assert ended.results[str(LATE)] == "undone"
    assert access_of(seen) == (before[0] | {theirs}, before[1])
    assert "mirror principal User:mirror may no longer do what it works with: read on topic orders" in ended.words


def test_who_cannot_log_in_from_here_is_said_not_to_be_probed() -> None:
    seen = ran(secured())
    ended = run(seen, plus(CONSUMER), no_login=(Principal.MIRROR,))
    assert ended.results[str(LATE)] == "done"
    [check] = [one for one in ended.probes[0].checks if "mirror" in one.subject]
    assert (check.verdict, "no secret of mirror" in check.text) == (ProbeVerdict.SKIPPED, True)
    assert "by the rules alone" in check.text


def test_a_login_that_falls_silent_leaves_the_wave_unconfirmed() -> None:
    seen = ran(secured())
    ended = run(seen, plus(CONSUMER), silent=(4, 5, 6))
    assert ended.results[str(LATE)] == "unproven"


def test_who_could_not_log_in_before_is_not_held_against_the_wave() -> None:
    seen = ran(secured())
    ended = run(seen, plus(CONSUMER), silent=range(1, 100))
    assert ended.results[str(LATE)] == "done"
    assert "could not log in before the ACL batch, either" in ended.words


def test_a_right_that_was_missing_before_is_not_held_against_the_wave() -> None:
    seen = ran(secured())
    seen.clusters["east"].acls.add(rule("deny User:apply alter_configs cluster kafka-cluster"))
    assert run(seen, plus(CONSUMER)).results[str(LATE)] == "done"
