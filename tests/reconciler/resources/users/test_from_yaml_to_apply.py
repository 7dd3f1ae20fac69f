"""SCRAM users from YAML to a plan and through an apply, on fake clusters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.explain import explain
from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.build import basis_now, plan, still_true
from reconciler.engine.plan.file import dumps, loads
from reconciler.engine.plan.select import within
from reconciler.environment.adopt.entries import AdoptOptions, adopt
from reconciler.environment.adopt.write import texts
from reconciler.environment.load import load
from reconciler.errors import ClusterError, ExitCode, Unknown
from reconciler.model.changes import AlterUser, DeleteUser, Stage
from reconciler.model.environment.topology import Cluster, Topology
from reconciler.model.live import LiveState
from reconciler.model.options import Autonomy
from reconciler.model.plan import Plan, Result
from reconciler.model.principals import Mechanism, Unsupported, UserRecord
from reconciler.operations.adopt.run import is_empty
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.declared import explanation_json, explanation_text
from reconciler.render.reports.drift import drift_json, drift_text
from tests.support.access.users import APP, SHA_256, SHA_512, env, users
from tests.support.builders import World, codes, ids, rules, world
from tests.support.fakes.cluster import FakeCluster


def altered(planned: Plan) -> dict[str, AlterUser]:
    return {one.change.user: one.change for one in planned.changes if isinstance(one.change, AlterUser)}


def applied(seen: World, wished: Topology, **more: bool) -> Plan:
    planned = seen.plan(wished, **more)
    assert {one.result for one in seen.apply(wished, planned)} <= {Result.DONE}
    assert seen.plan(wished, **more).exit_code is ExitCode.DONE, plan_text(seen.plan(wished, **more))
    return planned


def with_app(version: int = 1) -> World:
    """A world in which a run has set this version for orders-app."""
    seen = world()
    applied(seen, users(f"{APP}, version: {version}"))
    return seen


def test_a_missing_user_is_made_and_then_the_plan_is_empty() -> None:
    seen = world()
    wished = env(
        f"users:\n  - {{clusters: [east, west], {APP}, version: 3, mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512]}}\n"
    )
    planned = applied(seen, wished)
    assert ids(planned) == ["user:east: user orders-app", "user:west: user orders-app"]
    assert {one.stage for one in planned.changes} == {Stage.USERS}
    assert loads(dumps(planned)) == planned
    for cluster in seen.clusters.values():
        assert cluster.users == {"orders-app": {SHA_256: 4096, SHA_512: 4096}}
        assert cluster.recorded["orders-app"] == UserRecord(3, (SHA_256, SHA_512))
    assert "2 topics, mirrors and users compared" in plan_text(seen.plan(wished))


def test_a_raised_version_sets_every_credential_again() -> None:
    seen = world()
    both = "mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512]"
    applied(seen, users(f"{APP}, version: 1, {both}"))
    planned = applied(seen, users(f"name: orders-app, password: '${{env:NEW}}', version: 2, {both}"))
    change = altered(planned)["orders-app"]
    assert (change.recorded, change.version, change.reason.code) == (1, 2, "version-raised")
    assert planned.changes[0].risk == "medium"
    assert seen.clusters["east"].passwords["orders-app"] == dict.fromkeys((SHA_256, SHA_512), "${env:NEW}")


def test_without_a_raised_version_another_reference_sets_nothing() -> None:
    seen = with_app()
    assert seen.plan(users("name: orders-app, password: '${file:/elsewhere}', version: 1")).exit_code is ExitCode.DONE


def test_a_lowered_version_is_refused_with_both_values() -> None:
    seen = with_app(3)
    for version in (0, 2):
        planned = seen.plan(users(f"{APP}, version: {version}"))
        assert planned.exit_code is ExitCode.BLOCKED
        [refused] = planned.refused
        assert refused.reason.code == "version-lowered"
        assert f"version {version}" in refused.reason.text
        assert "version 3 is set" in refused.reason.text


def test_a_missing_mechanism_and_other_iterations_touch_only_what_differs() -> None:
    seen = with_app()
    both = "mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512]"
    planned = applied(seen, users(f"{APP}, version: 1, {both}"))
    assert [one.mechanism for one in altered(planned)["orders-app"].credentials] == [SHA_256]
    planned = applied(seen, users(f"{APP}, version: 1, {both}, iterations: 8192"))
    assert {(one.before, one.after) for one in altered(planned)["orders-app"].credentials} == {(4096, 8192)}
    assert seen.plan(users(f"{APP}, version: 1, {both}")).exit_code is ExitCode.DONE


def test_a_mechanism_of_ours_that_is_declared_no_longer_goes_and_a_strangers_stays() -> None:
    seen = world()
    applied(seen, users(f"{APP}, version: 1, mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512]"))
    planned = applied(seen, users(f"{APP}, version: 2"))
    assert ids(planned) == ["user:east: user orders-app", "delete-user:east: user orders-app"]
    assert seen.clusters["east"].users["orders-app"] == {SHA_512: 4096}
    seen.clusters["east"].users["orders-app"][SHA_256] = 5000
    planned = seen.plan(users(f"{APP}, version: 2"))
    assert planned.exit_code is ExitCode.DONE
    assert rules(planned.ignored) == {"mechanism-not-declared"}


def test_a_user_that_is_not_ours_is_refused_until_git_takes_it_over() -> None:
    seen = world()
    seen.clusters["east"].users["orders-app"] = {SHA_512: 4096}
    assert codes(seen.plan(users(f"{APP}, version: 1"))) == {"user-not-ours"}
    planned = applied(seen, users(f"{APP}, version: 1, take_over: true"))
    assert (planned.changes[0].risk, planned.changes[0].change.reason.code) == ("high", "take-over")
    assert seen.plan(users(f"{APP}, version: 1")).exit_code is ExitCode.DONE


def test_version_0_keeps_the_password_that_is_there() -> None:
    seen = world()
    assert codes(seen.plan(users("name: orders-app, version: 0"))) == {"user-missing"}
    seen.clusters["east"].users["orders-app"] = {SHA_512: 5000}
    assert seen.plan(users("name: orders-app, version: 0")).exit_code is ExitCode.DONE
    for more in ("iterations: 8192", "mechanisms: [SCRAM-SHA-256]"):
        assert codes(seen.plan(users(f"name: orders-app, version: 0, {more}"))) == {"needs-a-password"}


def test_a_user_that_others_deleted_is_created_again() -> None:
    seen = with_app()
    del seen.clusters["east"].users["orders-app"]
    assert altered(applied(seen, users(f"{APP}, version: 1")))["orders-app"].reason.code == "removed-outside"


def test_a_run_killed_before_it_could_record_the_version_is_done_again_and_never_claimed() -> None:
    seen = with_app(1)
    seen.clusters["east"].cut_off = True
    [outcome] = seen.apply(users(f"{APP}, version: 2"))
    assert outcome.result is Result.FAILED
    assert seen.clusters["east"].recorded["orders-app"] == UserRecord(1, (SHA_512,), 2)
    for version in (1, 2, 5):
        planned = seen.plan(users(f"{APP}, version: {version}"))
        assert altered(planned)["orders-app"].reason.code == "unfinished"
        assert "began to set version 2" in drift_text(planned)
    applied(seen, users(f"{APP}, version: 2"))
    assert seen.clusters["east"].recorded["orders-app"] == UserRecord(2, (SHA_512,))


def test_a_user_killed_while_it_was_made_is_ours_and_made_again() -> None:
    seen = world()
    seen.clusters["east"].cut_off = True
    seen.apply(users(f"{APP}, version: 1"))
    assert altered(seen.plan(users(f"{APP}, version: 1")))["orders-app"].reason.code == "unfinished"
    applied(seen, users(f"{APP}, version: 1"))


def test_a_user_leaves_by_absent_or_by_prune_and_never_by_omission() -> None:
    seen = with_app()
    seen.clusters["east"].users["stranger"] = {SHA_256: 4096}
    planned = seen.plan(users())
    assert planned.exit_code is ExitCode.DONE
    assert rules(planned.ignored) == {"user-left-over", "user-unmanaged"}
    assert any("plan --prune would delete 1 SCRAM user of east: orders-app" in note for note in planned.notes)
    planned = applied(seen, users(), prune=True)
    assert ids(planned) == ["delete-user:east: user orders-app"]
    assert (planned.changes[0].stage, planned.changes[0].risk) == (Stage.REMOVALS, "high")
    assert seen.clusters["east"].users == {"stranger": {SHA_256: 4096}}
    applied(seen, users("name: stranger, absent: true"))
    assert seen.clusters["east"].users == {}
    assert seen.clusters["east"].recorded == {}


def test_many_users_are_pruned_only_when_the_user_agrees() -> None:
    seen = world()
    applied(seen, users(*(f"name: app-{n}, version: 1, password: '${{env:APP_{n}}}'" for n in range(6))))
    assert codes(seen.plan(users(), prune=True)) == {"prune-above-limit"}


def test_where_the_section_is_not_written_no_one_looks() -> None:
    seen = with_app()
    before = seen.clusters["east"].calls
    assert seen.plan(env()).exit_code is ExitCode.DONE
    assert seen.clusters["east"].calls == before + 1


def test_unreadable_users_or_records_are_unknown_and_unsupported_ones_are_said_to_be_so() -> None:
    wished = users(f"{APP}, version: 1")
    seen = with_app()
    seen.clusters["east"].users_unreadable = Unknown("users of east", "may not read", "Allow it.")
    planned = seen.plan(wished)
    assert (planned.exit_code, planned.changes) == (ExitCode.ERROR, ())
    assert [(one.subject, one.detail) for one in planned.unknown] == [("users east", ("user orders-app",))]
    seen.clusters["east"].users_unreadable = Unsupported("too old")
    planned = seen.plan(wished)
    assert (planned.exit_code, rules(planned.ignored)) == (ExitCode.DONE, {"users-unsupported"})
    assert "unsupported here: too old; left out: user orders-app" in plan_text(planned)
    seen.clusters["east"].users_unreadable = None
    seen.clusters["east"].record_unreadable = Unknown("record", "no Read", "Allow it.")
    planned = seen.plan(wished)
    assert [one.detail for one in planned.unknown] == [("which versions earlier runs set",)]
    seen.clusters["west"].users_unreadable = Unknown("users of west", "may not read", "Allow it.")
    assert "users-not-looked-at" in rules(seen.plan(wished).ignored)


def test_a_cluster_that_does_not_answer_for_users_is_unknown() -> None:
    seen = world()
    seen.clusters["east"].fail_on(2, ClusterError("east", "unreachable", "no answer", "", "Wait."))
    assert seen.plan(users(f"{APP}, version: 1")).exit_code is ExitCode.ERROR


def test_a_plan_goes_stale_with_the_user_it_rests_on_and_with_nothing_else() -> None:
    seen = with_app(1)
    wished = users(f"{APP}, version: 2")
    planned = seen.plan(wished)
    seen.clusters["east"].users["other"] = {SHA_512: 4096}
    assert not still_true(planned, basis_now(planned, wished, seen.look(wished)))
    seen.clusters["east"].recorded["orders-app"] = UserRecord(2, (SHA_512,))
    [moved] = still_true(planned, basis_now(planned, wished, seen.look(wished)))
    assert moved.subject == "user east/orders-app"
    assert moved.before.endswith("version 1 recorded")
    assert moved.after.endswith("version 2 recorded")


def test_one_refused_user_leaves_the_others_done_and_the_next_run_tries_again() -> None:
    seen = world()
    wished = users(f"{APP}, version: 1", "name: billing, version: 1, password: '${env:B}'")
    seen.clusters["east"].refuse("billing", "not now")
    found = {one.id: one.result for one in seen.apply(wished)}
    assert found == {"user:east: user billing": Result.FAILED, "user:east: user orders-app": Result.DONE}
    seen.clusters["east"].accept("billing")
    assert set(altered(seen.plan(wished))) == {"billing"}
    applied(seen, wished)


def test_no_one_looking_sets_no_password() -> None:
    assert not within(world().plan(users(f"{APP}, version: 1")), Autonomy.SAFE).plan.changes


def test_users_come_before_the_rules_that_name_them_and_go_after_all_others() -> None:
    access = (
        'access:\n  - {role: consumer, principal: "User:orders-app", clusters: [east], topics: [orders], groups: [g]}\n'
    )
    seen = world()
    seen.clusters["east"].put("orders")
    first = env(f"users:\n  - {{clusters: [east], {APP}, version: 1}}\n", access)
    stages = [one.stage for one in applied(seen, first).changes]
    assert stages == [Stage.USERS, *[Stage.ACCESS] * (len(stages) - 1)]
    last = env("users:\n  - {clusters: [east], name: orders-app, absent: true}\n", "access: []\n")
    planned = applied(seen, last)
    assert isinstance(planned.changes[-1].change, DeleteUser)
    assert len(planned.changes) > 1


def test_equal_users_and_equal_quotas_are_reported_as_one() -> None:
    seen = world()
    several = [f"name: app-{n}, version: 1, password: '${{env:APP_{n}}}'" for n in range(4)]
    text = plan_text(seen.plan(users(*several)))
    assert "4 users, each" in text
    quotas = "".join(f"  - {{clusters: [east], user: app-{n}, producer_byte_rate: 1MiB}}\n" for n in range(4))
    text = plan_text(seen.plan(env(f"quotas:\n{quotas}")))
    assert "4 quotas, each" in text
    assert text.count("producer_byte_rate: none -> 1 MiB/s") == 1


def test_drift_has_versions_and_credentials() -> None:
    seen = with_app(1)
    text = drift_text(seen.plan(users(f"{APP}, version: 2")))
    assert "user-version: user east/orders-app live: version 1, SCRAM-SHA-512 with 4096 iterations" in text
    assert "declared: version 2, SCRAM-SHA-512 with 4096 iterations" in text


def test_explain_names_the_credentials_of_a_user_with_their_place_and_what_is_live() -> None:
    seen = with_app(1)
    wished = users(f"{APP}, version: 2")
    found = explain(wished, "User:orders-app", seen.look(wished))
    text = explanation_text(found)
    assert "SCRAM-SHA-512, version 2 [live SCRAM-SHA-512 with 4096 iterations, version 1 recorded]: declared" in text
    assert "1.yaml:2" in text
    assert "version 2" in explanation_text(explain(wished, "User:orders-app"))
    assert "orders-app" in explanation_json(found)


NAMES = st.sampled_from(["a", "on", "12", 'q"q', "a b", "\u00fcnder", "x\x00y", "User:a", "a,b=c", "CN=x"])
LIVE = st.dictionaries(
    NAMES,
    st.dictionaries(st.sampled_from(list(Mechanism)), st.sampled_from([4096, 5000, 16384]), min_size=1),
    max_size=6,
)


@given(LIVE, st.sets(NAMES))
def test_a_plan_of_adopted_users_changes_nothing_and_none_is_lost(
    live: dict[str, dict[Mechanism, int]], ours: set[str]
) -> None:
    fake = FakeCluster("east")
    fake.users = live
    fake.recorded = {name: UserRecord(7, tuple(live[name])) for name in ours & live.keys()}
    seen = replace(fake.read(), users=fake.read_users())
    made = adopt(Cluster("east", ("a.example:9092",), cluster_id="id-of-east"), seen, AdoptOptions())
    wished = load({f"env/east/{path}": text for path, text in texts(made).items()}, "env")
    assert is_empty(plan(wished, LiveState({"east": seen}, {})))
    assert len(wished.users) + len(made.users.left_out) == len(live)
    assert {user.version for user in wished.users} <= {0, 7}


WISHES = st.builds(
    lambda mechanisms, iterations, version: (
        f"mechanisms: [{', '.join(sorted(mechanisms))}], version: {version}"
        + (f", iterations: {iterations}" if iterations else "")
    ),
    st.sets(st.sampled_from([one.value for one in Mechanism]), min_size=1),
    st.sampled_from([None, 4096, 8192]),
    st.integers(1, 4),
)


@given(st.lists(st.tuples(WISHES, st.booleans()), max_size=4))
def test_whatever_was_set_before_and_wherever_it_was_killed_a_higher_version_converges(
    steps: list[tuple[str, bool]],
) -> None:
    seen = world("east", "west")
    for fields, killed in steps:
        wished = users(f"{APP}, {fields}")
        planned = seen.plan(wished)
        if planned.refused:
            assert codes(planned) == {"version-lowered"}
            continue
        seen.clusters["east"].cut_off = killed
        seen.apply(wished, planned)
        seen.clusters["east"].cut_off = False
        record = seen.clusters["east"].recorded["orders-app"]
        assert record.setting is not None or record.version is not None
    applied(seen, users(f"{APP}, version: 9, mechanisms: [SCRAM-SHA-256]"))
    assert seen.clusters["east"].recorded["orders-app"].version == 9
    assert set(seen.clusters["east"].users["orders-app"]) == {SHA_256}


def test_no_rendering_holds_more_than_the_reference() -> None:
    seen = with_app()
    planned = seen.plan(users(f"{APP}, version: 2"))
    for text in (plan_text(planned), planfile.dumps(planned), drift_text(planned), drift_json(planned)):
        assert "salt" not in text.replace("newly salted", "")
    assert "password from ${env:APP}" in plan_text(planned)
