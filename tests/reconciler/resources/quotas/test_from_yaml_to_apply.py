"""Quotas from YAML to a plan and through an apply, on fake clusters."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.clusters.acls_and_quotas import QuotaRequests
from reconciler.engine.explain import explain
from reconciler.engine.observe.read_all import ReadScope, observe
from reconciler.engine.plan.build import basis_now, plan, still_true
from reconciler.engine.plan.file import change_document, dumps, loads
from reconciler.engine.plan.select import known_part, within
from reconciler.environment.adopt.entries import AdoptOptions, adopt, adopt_quotas
from reconciler.environment.adopt.write import texts
from reconciler.environment.load import load
from reconciler.errors import ClusterError, ExitCode, TopologyError, Unknown
from reconciler.model.changes import AlterQuota, Stage
from reconciler.model.environment.topology import Cluster, Principal, Topology
from reconciler.model.live import LiveState
from reconciler.model.options import Autonomy
from reconciler.model.plan import Plan, Result
from reconciler.model.principals import (
    BYTE_RATES,
    CLIENT_QUOTAS,
    CONNECTION_RATE,
    QUOTA_KEYS,
    QuotaEntity,
    entity,
)
from reconciler.model.reports.drift import History
from reconciler.operations.adopt.run import is_empty
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.declared import explanation_text
from reconciler.render.reports.drift import drift_text
from tests.support.builders import World, world
from tests.support.fakes.cluster import FakeCluster

CLUSTERS = """
clusters:
  east: {bootstrap_servers: ["east:9092"]}
  west: {bootstrap_servers: ["west:9092"]}
"""
QUOTAS = """
quotas:
  - {clusters: [east], user: orders-app, producer_byte_rate: 10MiB, request_percentage: 12.5}
  - {clusters: [east, west], user: {default: true}, client_id: batch, consumer_byte_rate: 2000000}
  - {clusters: [east], ip: 10.0.0.7, connection_creation_rate: 50}
"""
APP = entity({"user": "orders-app"})
BATCH = entity({"client-id": "batch", "user": None})


def env(*parts: str) -> Topology:
    return load({f"{index}.yaml": text for index, text in enumerate((CLUSTERS, *parts))}, "test")


def quota(fields: str) -> Topology:
    return env(f"quotas:\n  - {{clusters: [east], {fields}}}\n")


def altered(planned: Plan) -> dict[str, AlterQuota]:
    return {one.id: one.change for one in planned.changes if isinstance(one.change, AlterQuota)}


def applied(seen: World, wished: Topology) -> None:
    assert {one.result for one in seen.apply(wished)} <= {Result.DONE}
    assert seen.plan(wished).exit_code is ExitCode.DONE, plan_text(seen.plan(wished))


def test_what_is_declared_is_set_on_every_cluster_and_then_the_plan_is_empty() -> None:
    seen = world()
    planned = seen.plan(env(QUOTAS))
    assert set(altered(planned)) == {
        "quota:east: user orders-app",
        "quota:east: default user, client-id batch",
        "quota:east: ip 10.0.0.7",
        "quota:west: default user, client-id batch",
    }
    assert {one.stage for one in planned.changes} == {Stage.QUOTAS}
    assert loads(dumps(planned)) == planned
    text = plan_text(planned)
    assert "producer_byte_rate: none -> 10 MiB/s" in text
    assert "request_percentage: none -> 12.5 %" in text
    applied(seen, env(QUOTAS))
    assert seen.clusters["east"].quotas[APP] == {"producer_byte_rate": 10 << 20, "request_percentage": 12.5}
    assert seen.clusters["west"].quotas == {BATCH: {"consumer_byte_rate": 2_000_000}}
    assert "4 topics, mirrors and quotas compared" in plan_text(seen.plan(env(QUOTAS)))


def test_the_default_and_a_user_called_default_are_two() -> None:
    seen = world()
    applied(
        seen,
        env("""quotas:
  - {clusters: [east], user: {default: true}, producer_byte_rate: 1MiB}
  - {clusters: [east], user: default, producer_byte_rate: 2MiB}
"""),
    )
    assert seen.clusters["east"].quotas == {
        entity({"user": None}): {"producer_byte_rate": 1 << 20},
        entity({"user": "default"}): {"producer_byte_rate": 2 << 20},
    }


def test_undeclared_keys_and_entities_are_reported_and_left_alone() -> None:
    seen = world()
    stranger = entity({"user": "stranger"})
    seen.clusters["east"].quotas = {
        APP: {"producer_byte_rate": 10 << 20, "consumer_byte_rate": 5},
        stranger: {"request_percentage": 1.0},
    }
    wished = quota("user: orders-app, producer_byte_rate: 10MiB")
    planned = seen.plan(wished)
    assert planned.exit_code is ExitCode.DONE
    assert {(one.rule, one.text) for one in planned.ignored} == {
        ("quota-key-not-declared", "user orders-app: consumer_byte_rate 5 B/s"),
        ("quota-unmanaged", "user stranger: request_percentage 1 %"),
    }
    applied(seen, quota("user: orders-app, producer_byte_rate: 1MiB"))
    assert seen.clusters["east"].quotas[APP]["consumer_byte_rate"] == 5
    assert stranger in seen.clusters["east"].quotas


def test_keys_and_entities_go_only_when_git_says_so() -> None:
    seen = world()
    applied(seen, env(QUOTAS))
    applied(seen, quota("user: orders-app, producer_byte_rate: 10MiB, remove: [request_percentage]"))
    assert seen.clusters["east"].quotas[APP] == {"producer_byte_rate": 10 << 20}
    applied(seen, quota("user: orders-app, absent: true"))
    assert APP not in seen.clusters["east"].quotas
    assert BATCH in seen.clusters["east"].quotas


def test_all_clusters_are_asked_once_the_section_is_written_and_none_before() -> None:
    seen = world()
    seen.plan(quota("user: a, producer_byte_rate: 1MiB"))
    assert (seen.clusters["east"].calls, seen.clusters["west"].calls) == (3, 3)
    seen.plan(env())
    assert (seen.clusters["east"].calls, seen.clusters["west"].calls) == (4, 4)


def test_quotas_that_cannot_be_read_are_unknown_and_change_nothing() -> None:
    seen = world()
    seen.clusters["east"].quotas_unreadable = ClusterError("east", "denied", "may not read the quotas", "", "Allow it.")
    planned = seen.plan(quota("user: orders-app, producer_byte_rate: 1MiB"))
    assert planned.exit_code is ExitCode.ERROR
    assert not planned.changes
    assert [(one.subject, one.detail) for one in planned.unknown] == [("quotas east", ("user orders-app",))]
    live = observe(dict(seen.clusters), wanted=ReadScope(quotas=("east",)))
    assert live.known("east") is not None
    assert plan(quota("user: orders-app, producer_byte_rate: 1MiB"), live).unknown


def test_what_a_run_set_and_git_names_no_longer_is_reported_and_goes_by_prune_alone() -> None:
    seen = world()
    stranger = entity({"user": "stranger"})
    applied(seen, env(QUOTAS))
    seen.clusters["east"].quotas[stranger] = {"request_percentage": 1.0}
    seen.clusters["east"].quotas[APP]["consumer_byte_rate"] = 5.0
    address = "  - {clusters: [east], ip: 10.0.0.7, connection_creation_rate: 50}\n"
    wished = env(f"quotas:\n  - {{clusters: [east], user: orders-app, producer_byte_rate: 10MiB}}\n{address}")
    planned = seen.plan(wished)
    assert planned.exit_code is ExitCode.DONE
    left = {one.text.partition(":")[0] for one in planned.ignored if one.rule == "quota-left-over"}
    assert left == {"user orders-app", "default user, client-id batch"}
    assert {one.rule for one in planned.ignored} == {"quota-left-over", "quota-unmanaged", "quota-key-not-declared"}
    assert any("plan --prune would remove limits from 2 quotas of east" in note for note in planned.notes)
    planned = seen.plan(wished, prune=True)
    assert {one.id for one in planned.changes} == {
        "prune-quota:east: user orders-app",
        "prune-quota:east: default user, client-id batch",
        "prune-quota:west: default user, client-id batch",
    }
    assert {one.stage for one in planned.changes} == {Stage.REMOVALS}
    assert loads(dumps(planned)) == planned
    assert {one.result for one in seen.apply(wished, planned)} == {Result.DONE}
    assert seen.plan(wished, prune=True).exit_code is ExitCode.DONE
    assert seen.clusters["east"].quotas == {
        APP: {"producer_byte_rate": 10 << 20, "consumer_byte_rate": 5.0},
        stranger: {"request_percentage": 1.0},
        entity({"ip": "10.0.0.7"}): {"connection_creation_rate": 50.0},
    }


def test_one_client_may_get_a_limit_and_lose_another_in_one_plan() -> None:
    seen = world()
    applied(seen, quota("user: orders-app, producer_byte_rate: 10MiB, request_percentage: 5"))
    wished = quota("user: orders-app, producer_byte_rate: 1MiB")
    planned = seen.plan(wished, prune=True)
    assert [one.id for one in planned.changes] == ["quota:east: user orders-app", "prune-quota:east: user orders-app"]
    seen.apply(wished, planned)
    assert seen.clusters["east"].quotas == {APP: {"producer_byte_rate": 1 << 20}}


def test_many_quotas_are_pruned_only_when_the_user_agrees() -> None:
    seen = world()
    lines = "".join(f"  - {{clusters: [east], user: app-{n}, producer_byte_rate: 1MiB}}\n" for n in range(6))
    applied(seen, env(f"quotas:\n{lines}"))
    assert [one.reason.code for one in seen.plan(env("quotas: []\n"), prune=True).refused] == ["prune-above-limit"]


def test_an_unreadable_record_stops_a_prune_and_nothing_else() -> None:
    seen = world()
    applied(seen, env(QUOTAS))
    seen.clusters["east"].record_unreadable = Unknown("record", "may not read it", "Allow it.")
    wished = quota("user: orders-app, producer_byte_rate: 10MiB")
    planned = seen.plan(wished)
    assert (planned.exit_code, planned.unknown) == (ExitCode.DONE, ())
    assert not any(one.rule == "quota-left-over" and one.subject.cluster == "east" for one in planned.ignored)
    planned = seen.plan(wished, prune=True)
    assert [(one.subject, one.detail) for one in planned.unknown] == [
        ("quotas east", ("which quotas earlier runs set",))
    ]
    assert not any("east" in one.id for one in planned.changes)


def test_quotas_of_a_cluster_that_no_entry_names_may_stay_unread() -> None:
    seen = world()
    seen.clusters["west"].quotas_unreadable = ClusterError("west", "denied", "may not read the quotas", "", "Allow it.")
    planned = seen.plan(quota("user: orders-app, producer_byte_rate: 1MiB"))
    assert planned.exit_code is ExitCode.CHANGES
    assert [one.rule for one in planned.ignored] == ["quotas-not-looked-at"]


@pytest.mark.parametrize(
    ("before", "wished", "risk"),
    [
        ({}, "producer_byte_rate: 1MiB", "medium"),
        ({"producer_byte_rate": 2 << 20}, "producer_byte_rate: 1MiB", "medium"),
        ({"producer_byte_rate": 1 << 19}, "producer_byte_rate: 1MiB", "low"),
        ({"producer_byte_rate": 1 << 19}, "remove: [producer_byte_rate]", "low"),
    ],
)
def test_a_tighter_limit_is_a_risk(before: dict[str, float], wished: str, risk: str) -> None:
    seen = world()
    seen.clusters["east"].quotas = {APP: dict(before)} if before else {}
    [planned] = seen.plan(quota(f"user: orders-app, {wished}")).changes
    assert planned.risk == risk


def test_a_plan_goes_stale_with_the_quota_it_rests_on_and_with_nothing_else() -> None:
    seen = world()
    wished = quota("user: orders-app, producer_byte_rate: 1MiB")
    planned = seen.plan(wished)
    seen.clusters["east"].quotas[entity({"user": "other"})] = {"request_percentage": 3.0}
    assert not still_true(planned, basis_now(planned, wished, seen.look(wished)))
    seen.clusters["east"].quotas[APP] = {"request_percentage": 3.0}
    [moved] = still_true(planned, basis_now(planned, wished, seen.look(wished)))
    assert moved.subject == "quota east/user orders-app"
    assert (moved.before, moved.after) == ("absent", "request_percentage 3 %")


def test_one_refused_change_leaves_the_others_done_and_the_next_run_tries_again() -> None:
    seen = world()
    seen.clusters["east"].refuse("user orders-app", "not now")
    found = {one.id: one.result for one in seen.apply(env(QUOTAS))}
    assert found["quota:east: user orders-app"] is Result.FAILED
    assert set(found.values()) == {Result.DONE, Result.FAILED}
    seen.clusters["east"].accept("user orders-app")
    assert set(altered(seen.plan(env(QUOTAS)))) == {"quota:east: user orders-app"}
    applied(seen, env(QUOTAS))


def test_a_killed_run_says_of_each_quota_whether_it_is_set() -> None:
    seen = world("east", "west")
    seen.clusters["east"].kill_after(1)
    outcomes = seen.apply(env(QUOTAS))
    assert [one.result for one in outcomes].count(Result.DONE) == 1
    applied(seen, env(QUOTAS))


def test_no_one_looking_sets_no_quota() -> None:
    planned = world().plan(env(QUOTAS))
    assert not within(planned, Autonomy.SAFE).plan.changes


def test_drift_has_each_key() -> None:
    seen = world()
    applied(seen, env(QUOTAS))
    seen.clusters["east"].quotas[APP]["producer_byte_rate"] = 1 << 20
    text = drift_text(seen.plan(env(QUOTAS)))
    assert "quota: east: user orders-app producer_byte_rate live: 1 MiB/s, declared: 10 MiB/s" in text


def test_drift_says_whether_a_limit_was_set_by_us_and_changed_since() -> None:
    seen = world()
    wished = quota("user: orders-app, producer_byte_rate: 10MiB")
    planned = seen.plan(wished)
    line = {"at": "noon", "result": "done", "change": change_document(planned.changes[0].change)}
    history = History(changes={"quota:east: user orders-app": (line,)})
    assert "edited-outside: set by the apply of noon" in drift_text(planned, history=history)
    later = seen.plan(quota("user: orders-app, producer_byte_rate: 5MiB"))
    assert "not-told: " in drift_text(later, history=history)


def test_explain_names_the_quotas_of_a_user_with_their_place_and_what_is_live() -> None:
    seen = world()
    wished = env(QUOTAS)
    text = explanation_text(explain(wished, "User:orders-app", seen.look(wished)))
    assert "east: user orders-app: producer_byte_rate 10 MiB/s, request_percentage 12.5 % [live none]: declared" in text
    assert "1.yaml:3" in text
    assert "client-id batch" in explanation_text(explain(wished, "client-id:batch"))


WRONG = {
    "producer_byte_rate: 1MiB": "quota-entity",
    "ip: 10.0.0.1, user: a, connection_creation_rate: 1": "quota-entity",
    "ip: app.example, connection_creation_rate: 1": "quota-entity",
    '"user": "User:a", producer_byte_rate: 1MiB': "quota-entity",
    "ip: 10.0.0.1, producer_byte_rate: 1MiB": "quota-key",
    "user: a, connection_creation_rate: 1": "quota-key",
    "user: a": "quota-empty",
    "user: a, absent: true, producer_byte_rate: 1MiB": "quota-contradiction",
    "user: a, remove: [producer_byte_rate], producer_byte_rate: 1MiB": "quota-contradiction",
    "user: a, producer_byte_rate: 1MB": "bad-size",
    "user: a, producer_byte_rate: 0B": "bad-size",
    "user: a, producer_byte_rate: 0": "out-of-range",
    "user: a, producer_rate: 1MiB": "unknown-field",
    "user: {default: false}, producer_byte_rate: 1MiB": "unknown-value",
    "user: a, request_percentage: much": "wrong-type",
}


@pytest.mark.parametrize("fields", WRONG)
def test_what_cannot_be_meant_is_reported_with_its_line(fields: str) -> None:
    with pytest.raises(TopologyError) as caught:
        quota(fields)
    [problem] = caught.value.problems
    assert problem.code == WRONG[fields]
    assert problem.where.line == 2


def test_one_entity_is_declared_once_on_a_cluster() -> None:
    with pytest.raises(TopologyError) as caught:
        env(QUOTAS, "quotas:\n  - {clusters: [west, nowhere], client_id: batch, user: {default: true}, absent: true}\n")
    assert {problem.code for problem in caught.value.problems} == {"duplicate-quota", "unknown-cluster"}


NAMES = (
    st.sampled_from(["a", "default", "on", "12", 'q"q', "a b", "ünder", "x\x00y", "", "User:a", "a, ip b"]) | st.none()
)
WHOM = st.one_of(
    st.builds(lambda user: entity({"user": user}), NAMES),
    st.builds(lambda client: entity({"client-id": client}), NAMES),
    st.builds(lambda user, client: entity({"user": user, "client-id": client}), NAMES, NAMES),
    st.builds(lambda ip: entity({"ip": ip}), st.sampled_from(["10.0.0.1", "::1", None])),
)
VALUES = st.integers(1, 1 << 50).map(float) | st.sampled_from([0.5, 12.25, 1e-7, 0.0, -1.0])
LIVE = st.dictionaries(WHOM, st.dictionaries(st.sampled_from(QUOTA_KEYS), VALUES, min_size=1), max_size=6)


def _fitting(live: dict[QuotaEntity, dict[str, float]]) -> dict[QuotaEntity, dict[str, float]]:
    """What Kafka can hold."""
    found = {}
    for whom, limits in live.items():
        keys = (CONNECTION_RATE,) if whom.parts[0].kind == "ip" else CLIENT_QUOTAS
        whole = (*BYTE_RATES, CONNECTION_RATE)
        kept = {key: v for key, v in limits.items() if key in keys and (v == int(v) or key not in whole)}
        if kept:
            found[whom] = kept
    return found


@given(LIVE)
def test_a_plan_of_adopted_quotas_changes_nothing_and_none_is_lost(live: dict[QuotaEntity, dict[str, float]]) -> None:
    fake = FakeCluster("east")
    fake.quotas = _fitting(live)
    seen = replace(fake.read(), quotas=fake.read_quotas())
    made = adopt(Cluster("east", ("a.example:9092",), cluster_id="id-of-east"), seen, AdoptOptions())
    wished = load({f"env/east/{path}": text for path, text in texts(made).items()}, "env")
    assert is_empty(plan(wished, LiveState({"east": seen}, {})))
    count = sum(len(quota.limits) for quota in wished.quotas)
    assert count == sum(len(quota.limits) for quota in adopt_quotas("east", fake.quotas).entries)
    nobody = {one.partition(": ")[0] for one in made.quotas.left_out if "cannot be declared" not in one}
    left = sum(len(limits) for whom, limits in fake.quotas.items() if str(whom) in nobody)
    single = sum("cannot be declared" in one for one in made.quotas.left_out)
    assert count + left + single == sum(map(len, fake.quotas.values()))


@given(LIVE, LIVE)
def test_after_an_apply_the_plan_is_empty(
    before: dict[QuotaEntity, dict[str, float]], desired: dict[QuotaEntity, dict[str, float]]
) -> None:
    seen = world("east")
    seen.clusters["east"].quotas = _fitting(before)
    declared = adopt_quotas("east", _fitting(desired)).entries
    wished = replace(load({"c.yaml": CLUSTERS.split("  west")[0]}, "test"), quotas=declared)
    applied(seen, wished)


def test_nothing_is_pruned_in_part_of_a_plan_that_is_in_doubt() -> None:
    seen = world()
    applied(seen, env(QUOTAS))
    seen.clusters["west"].quotas_unreadable = ClusterError("west", "denied", "may not read the quotas", "", "Allow it.")
    address = "  - {clusters: [east], ip: 10.0.0.7, connection_creation_rate: 60}\n"
    planned = seen.plan(env(f"quotas:\n{address}"), prune=True)
    assert {one.id for one in known_part(planned).plan.changes} == {"quota:east: ip 10.0.0.7"}
    assert "prune-quota:east: user orders-app" in {one.id for one in planned.changes}


def test_a_limit_without_end_is_shown_saved_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers before 4.4 take infinity for a share of time; it once ended each plan with a traceback."""

    def answer(*_: object, **__: object) -> SimpleNamespace:
        values = [
            SimpleNamespace(key=key, value=math.inf) for key in ("request_percentage", "controller_mutation_rate")
        ]
        whom = [SimpleNamespace(entity_type="user", entity_name="app")]
        return SimpleNamespace(error_code=0, error_message="", entries=[SimpleNamespace(entity=whom, values=values)])

    monkeypatch.setattr(QuotaRequests, "send", answer)
    seen = world()
    described = QuotaRequests(Cluster("east", ("a:9092",)), Principal.PLAN).described()
    seen.clusters["east"].quotas = {whom: dict(limits) for whom, limits in described.items()}
    wished = quota("user: app, request_percentage: 50")
    planned = seen.plan(wished)
    assert "request_percentage: without end -> 50 %" in plan_text(planned)
    assert [one.text for one in planned.ignored] == ["user app: controller_mutation_rate without end"]
    assert loads(dumps(planned)) == planned
    applied(seen, wished)
    left_out = adopt_quotas("east", seen.clusters["east"].quotas).left_out
    assert left_out == ("user app: controller_mutation_rate without end cannot be declared",)
