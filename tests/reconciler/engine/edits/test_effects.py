"""An entry of an edit that changes nothing on a cluster says so, for every kind; no other does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler.engine.edits.compare import compare
from reconciler.engine.edits.edit_and_plan import EditAndPlan
from reconciler.engine.edits.effects import lead, without_effect
from reconciler.engine.plan.build import plan
from reconciler.environment.load import load
from reconciler.errors import Unknown
from reconciler.model.live import LiveState
from reconciler.model.principals import Mechanism, Unsupported, entity
from reconciler.model.reports.edit import EditComparison, NoEffect
from reconciler.render.markup import Format
from reconciler.render.plan.formats import Review, render
from reconciler.render.plan.sections import NO_HANDOFF
from tests.support.access.acls import rules
from tests.support.builders import World, world
from tests.support.documents.edits import AGAINST

BASE = """
clusters:
  east: {bootstrap_servers: ["east:9092"], defaults: {replication_factor: 1}}
  west: {bootstrap_servers: ["west:9092"], defaults: {replication_factor: 1}}
topics:
  orders: {clusters: [east], partitions: 2, configs: {retention.ms: 1d}, labels: {owner: shop}}
  pay: {clusters: [east], partitions: 1}
flows:
  east-to-west: {source: east, target: west, topics: [orders]}
"""
ACCESS = (
    BASE
    + """
access:
  - {role: consumer, principal: "User:svc", clusters: [east], topics: [orders], groups: [svc]}
  - {role: producer, principal: "User:app", clusters: [east], topics: [orders]}
"""
)
QUOTAS = (
    BASE
    + """
quotas:
  - {user: svc, clusters: [east], consumer_byte_rate: 1MiB, producer_byte_rate: 2MiB}
"""
)
USERS = (
    BASE
    + """
users:
  - {name: svc, clusters: [east], mechanisms: [SCRAM-SHA-512], version: 1, password: "${env:SVC}", take_over: true}
"""
)
SVC = rules("allow User:svc read topic orders", "allow User:svc read group svc", "allow User:app write topic orders")


@dataclass
class Edit:
    """An edit of an environment that was applied."""

    seen: World
    before: str

    def run(self, after: str) -> tuple[tuple[NoEffect, ...], Any, Any]:
        old, new = load({"1.yaml": self.before}, "shop"), load({"1.yaml": after}, "shop")
        seen = self.seen.look(new)
        live = replace(seen, mirrors={name: self.seen.runner.observe(name) for name in (*old.mirrors, *new.mirrors)})
        made = plan(new, live)
        compared = compare(old, new)
        return without_effect(compared, EditAndPlan(old, new, made, live)), made, compared

    def of(self, *pairs: tuple[str, str]) -> tuple[NoEffect, ...]:
        text = self.before
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return self.run(text)[0]


def applied(text: str = BASE) -> Edit:
    seen = world()
    seen.apply(load({"1.yaml": text}, "shop"))
    return Edit(seen, text)


def adopted(text: str) -> Edit:
    """Declared, and found on the cluster; no apply has been since."""
    edit = applied(BASE)
    edit.seen.clusters["east"].acls = set(SVC)
    edit.seen.clusters["east"].quotas = {entity({"user": "svc"}): {"consumer_byte_rate": 1048576.0}}
    edit.seen.clusters["east"].users = {"svc": {Mechanism("SCRAM-SHA-512"): 4096}}
    return Edit(edit.seen, text)


# access: the finding and its relatives


def without_svc(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "User:svc" not in line) + "\n"


def test_a_revocation_that_revokes_nothing_is_the_headline() -> None:
    edit = adopted(ACCESS)
    [found], made, compared = edit.run(without_svc(ACCESS))
    assert not made.changes
    assert found.headline == "revokes nothing: 2 access rules of User:svc stay on east"
    assert "absent: true" in found.todo
    review = Review(made, compared, AGAINST, effectless=(found,))
    said = "This edit revokes nothing: 2 access rules of User:svc stay on east. No changes: everything is as declared"
    for form in (Format.TEXT, Format.MARKDOWN, Format.HTML):
        text = render(review, form, NO_HANDOFF)
        assert said in text.replace("\\", "")
        assert "Edits without effect" in text
    assert render(review, Format.TEXT, NO_HANDOFF).startswith(said)
    assert '"headline": "revokes nothing' in render(review, Format.JSON, NO_HANDOFF)


def test_after_an_apply_the_same_edit_revokes() -> None:
    edit = adopted(ACCESS)
    edit.seen.apply(load({"1.yaml": ACCESS}, "shop"))
    found, made, _ = edit.run(without_svc(ACCESS))
    assert found == ()
    assert len(made.changes) == 2
    assert applied(ACCESS).run(without_svc(ACCESS))[0] == ()


def test_a_rule_that_another_entry_asks_for_too_is_not_revoked() -> None:
    twice = '  - {principal: "User:svc", clusters: [east], resource: topic, names: [orders], operations: [read]}\n'
    [found], made, _ = applied(ACCESS + twice).run(ACCESS)
    assert not made.changes
    assert found.headline == "revokes nothing of User:svc: allow on topic: another entry asks for the same rules"


def test_a_narrowed_rule_a_rule_that_is_there_and_a_section_that_goes() -> None:
    edit = adopted(ACCESS)
    [narrowed] = edit.of((", groups: [svc]", ", groups: []"))
    assert narrowed.headline == "revokes nothing: 1 access rule of User:svc stays on east"
    [there] = Edit(edit.seen, without_svc(ACCESS)).run(ACCESS)[0]
    assert (there.headline, "there already" in there.why) == ("", True)
    section = [each for each in edit.run(BASE)[0] if each.kind == "section"]
    assert section[0].headline == "takes nothing away: all of access stays"


def test_rules_without_an_authorizer_and_rules_that_cannot_be_read() -> None:
    edit = adopted(ACCESS)
    edit.seen.clusters["east"].access_unreadable = Unsupported("the cluster has no authorizer")
    [found] = edit.run(without_svc(ACCESS))[0]
    assert found.headline == "allows and denies nothing: east has no authorizer"
    edit.seen.clusters["east"].access_unreadable = Unknown("access of east", "denied")
    assert edit.run(without_svc(ACCESS))[0] == (), "the plan says that it is unknown"


# quotas and users


def test_a_quota_that_leaves_the_files_stays() -> None:
    edit = adopted(QUOTAS)
    [whole] = edit.run(BASE + "quotas: []\n")[0]
    assert whole.headline == "lifts nothing: consumer_byte_rate of user svc stays on east"
    [key] = edit.of(("consumer_byte_rate: 1MiB, ", ""), ("producer_byte_rate: 2MiB", "producer_byte_rate: 2MiB"))
    assert "consumer_byte_rate" in key.headline
    assert edit.of(("producer_byte_rate: 2MiB", "producer_byte_rate: 3MiB")) == ()


def test_a_user_that_leaves_the_files_can_still_log_in() -> None:
    edit = adopted(USERS)
    [gone] = edit.run(BASE + "users: []\n")[0]
    assert gone.headline == "removes no user: svc can still log in on east"


def test_a_mechanism_that_leaves_the_entry_of_a_found_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the password is taken over the plan has a change of the user, and none that ends the other login."""
    monkeypatch.setenv("SVC", "a")
    edit = adopted(USERS.replace("[SCRAM-SHA-512]", "[SCRAM-SHA-512, SCRAM-SHA-256]"))
    edit.seen.clusters["east"].users["svc"][Mechanism("SCRAM-SHA-256")] = 4096
    [found] = edit.run(USERS)[0]
    assert found.headline == "removes no login: svc can still log in by SCRAM-SHA-256 on east"
    assert found.todo == (
        "kafka-configs.sh --bootstrap-server east:9092 --alter --entity-type users --entity-name svc"
        " --delete-config SCRAM-SHA-256"
    )


def test_a_mechanism_that_an_apply_made_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVC", "a")
    both = USERS.replace("[SCRAM-SHA-512]", "[SCRAM-SHA-512, SCRAM-SHA-256]")
    assert applied(both).run(USERS)[0] == ()


def test_another_password_without_another_version_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVC", "a")
    edit = adopted(USERS)
    edit.seen.apply(load({"1.yaml": USERS}, "shop"))
    [found] = edit.of(("${env:SVC}", "${env:OTHER}"))
    assert found.headline == "sets no password: that of user svc is set only when its version rises"
    assert edit.of(("${env:SVC}", "${env:OTHER}"), ("version: 1", "version: 2")) == ()


# topics


def test_topics_that_leave_the_files_stay() -> None:
    edit = applied()
    [gone] = edit.of(("  pay: {clusters: [east], partitions: 1}\n", ""))
    assert gone.headline == "deletes nothing: topic pay stays on east"
    assert "tombstone" in gone.todo


def test_a_rename_is_reported_as_one() -> None:
    edit = applied()
    [renamed] = edit.of(("  pay: {", "  payments: {"))
    assert renamed.headline == "renames nothing: payments begins empty, pay stays on east with its records"


def test_a_config_that_leaves_the_files_stays() -> None:
    edit = applied()
    [gone] = edit.of((", configs: {retention.ms: 1d}", ""))
    assert gone.headline == "resets nothing: retention.ms of orders stays 1d on east"
    assert edit.of(("retention.ms: 1d", "retention.ms: 2d")) == ()


def test_of_a_config_that_could_not_be_read_nothing_is_concluded() -> None:
    edit = applied()
    edit.seen.clusters["east"].configs_unreadable = Unknown("configs", "no answer")
    assert edit.of((", configs: {retention.ms: 1d}", "")) == ()
    assert edit.of(("retention.ms: 1d", "retention.ms: 2d")) == ()


def test_a_default_that_a_stronger_value_shadows_does_nothing() -> None:
    edit = applied()
    [shadowed] = edit.of(
        ('east:9092"], defaults: {', 'east:9092"], defaults: {configs: {compression.type: producer}, ')
    )
    assert shadowed.kind == "cluster"
    assert "each has this value already, or a stronger layer" in shadowed.why
    assert edit.of(('east:9092"], defaults: {', 'east:9092"], defaults: {configs: {retention.bytes: "9"}, ')) == ()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("labels: {owner: shop}", "labels: {owner: crm}", "labels are for people and rules"),
        ("pay: {clusters: [east], partitions: 1}", "pay: {clusters: [east]}", "existing topics keep the count"),
    ],
)
def test_what_means_nothing_on_a_cluster_is_named(old: str, new: str, why: str) -> None:
    [found] = applied().of((old, new))
    assert why in found.why
    assert not found.headline


def test_what_is_refused_or_unknown_is_no_edit_without_effect() -> None:
    edit = applied()
    assert edit.of(("partitions: 2", "partitions: 1")) == (), "the plan refuses it"


def test_an_unknown_effect_is_not_reported_as_none() -> None:
    old, new = (load({"1.yaml": text}, "shop") for text in (BASE, BASE.replace("partitions: 2", "partitions: 3")))
    live = applied().seen.look(new)
    silent = LiveState({**live.clusters, "east": Unknown("cluster east", "no answer")}, live.mirrors)
    sides = EditAndPlan(old, new, plan(new, silent), silent)
    assert without_effect(compare(old, new), sides) == ()


def test_an_address_that_does_not_answer_is_no_edit_without_effect() -> None:
    old, new = (load({"1.yaml": text}, "shop") for text in (BASE, BASE.replace("west:9092", "other:9092")))
    live = applied().seen.look(new)
    silent = LiveState({**live.clusters, "west": Unknown("cluster west", "no answer")}, live.mirrors)
    sides = EditAndPlan(old, new, plan(new, silent), silent)
    assert without_effect(compare(old, new), sides) == (), "its mirrors restart once it answers"


# flows, mirrors, what counts for many


@pytest.mark.parametrize(
    ("topics", "other"),
    [
        ("topics: [orders, 'oders.*']", False),
        ("topics: ['orders(-v[0-9])?']", False),
        ("topics: [orders], exclude_topics: ['test.*']", False),
        ("topics: [orders, 'pa.*']", True),
        ("topics: ['or.*', pay], exclude_topics: [orders]", True),
    ],
)
def test_expressions_that_carry_no_other_topic_are_the_headline(topics: str, other: bool) -> None:
    """The mirror restarts for them all the same."""
    effectless = applied().of(("topics: [orders]}", f"{topics}}}"))
    said = "This edit carries no other topic now: flow east-to-west matches the same 1 topic. "
    assert lead(effectless) == ("" if other else said)


def test_objectives_change_no_cluster_beside_a_restart() -> None:
    [found] = applied().of(("topics: [orders]}", "topics: [orders], lanes: 3, objectives: {rto: 5m}}"))
    assert found.setting == "objectives.rto (not set) -> 5m"


def flow_with(words: str) -> tuple[str, str]:
    return "topics: [orders]}", f"topics: [orders], {words}}}"


def test_a_start_moves_no_position_that_is_there() -> None:
    [found] = applied().of(flow_with("start: latest"))
    assert found.headline == "moves no position: flow east-to-west continues where it is, whatever start says"
    assert "mirror seek" in found.todo


@pytest.mark.parametrize("start", ["latest", "again", "{offsets: {orders: {0: 5}}}"])
def test_a_start_decides_where_no_job_has_copied(start: str) -> None:
    """The guard on remote topics that hold records recommends it: no headline takes it for an edit without effect."""
    edit = Edit(world(), BASE)
    edit.seen.clusters["east"].put("orders")
    edit.seen.clusters["west"].put("east.orders")
    assert [each for each in edit.of(flow_with(f"start: {start}")) if each.kind == "flow"] == []


def test_a_start_again_counts_also_where_the_flow_runs() -> None:
    assert applied().of(flow_with("start: again")) == ()


@pytest.mark.parametrize("words", ["delivery: at_least_once", "lanes: 4", "rate_limit: 1MiB"])
def test_what_restarts_a_mirror_has_an_effect(words: str) -> None:
    assert applied().of(flow_with(words)) == ()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("groups: {include: [a]}", "only with sync_offsets"),
        ("labels: {owner: a}", "labels are for people"),
        ("sync_topic_configs: {exclude: [compression.type]}", "it changes no remote topic"),
    ],
)
def test_what_the_job_does_not_read_is_named(words: str, why: str) -> None:
    found = applied().of(flow_with(words))
    assert found
    assert all(why in each.why for each in found)


@pytest.mark.parametrize(
    "more",
    ["protected: [ledger]\n", "shrink_limit: {percent: 10}\n", "defaults: {configs: {compression.type: producer}}\n"],
)
def test_rules_for_later_runs_are_named(more: str) -> None:
    found = applied().run(BASE + more)[0]
    assert lead(found).startswith("This edit has no effect in ")


GUARDED = (
    BASE.replace('["west:9092"]', '["west:9092"], cluster_id: id-of-west, prune: {topics: [x]}').replace(
        "pay: {", "pay: {class: kept, lower_retention_by: {retention.ms: 1d}, "
    )
    + """
defaults: {lower_retention_by: {retention.ms: 1d}}
classes: {kept: {lower_retention_by: {retention.bytes: 1GiB}}}
protected: [ledger]
shrink_limit: {percent: 10}
rollout: {waves: [{name: a, clusters: [east]}, {name: b, clusters: [west]}]}
"""
)
ROLLOUT = GUARDED[GUARDED.index("rollout:") :]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (", cluster_id: id-of-west", "", "cluster west (cluster_id id-of-west -> (not set)): no command notices"),
        ("prune: {topics: [x]}", "prune: {topics: [x, y]}", "cluster west (prune.topics x -> x, y): what plan --prune"),
        (", lower_retention_by: {retention.ms: 1d}, ", ", ", "topic pay (lower_retention_by.retention.ms 1d -> (not"),
        (
            "defaults: {lower_retention_by: {retention.ms: 1d}}\n",
            "",
            "defaults of the environment (lower_retention_by.",
        ),
        (
            "1GiB",
            "2GiB",
            "class kept (lower_retention_by.retention.bytes 1GiB -> 2GiB): a lower retention may delete",
        ),
        ("protected: [ledger]\n", "", "protection ledger: such topics may be deleted from now on"),
        ("percent: 10", "percent: 50", "limit shrink_limit (percent 10 -> 50): more may be lost at once"),
        (ROLLOUT, "", "rollout of the environment: apply does everything in one go"),
        ("rollout: {", "rollout: {gates: {lag: ignored}, ", "rollout of the environment (gates.lag 1m -> ignored)"),
    ],
)
def test_an_edit_that_loosens_a_guard_leads_the_plan(old: str, new: str, words: str) -> None:
    """No effect, it would be read as harmless; the way back is the edit that tightens it."""
    assert old in GUARDED
    after = GUARDED.replace(old, new)
    found = applied(GUARDED).run(after)[0]
    assert lead(found).startswith(f"This edit loosens {words}")
    back = applied(after).run(GUARDED)[0]
    assert back
    assert lead(back).startswith("This edit has no effect in ")


def test_an_edit_that_does_what_it_says_has_no_such_list() -> None:
    assert applied().of(("partitions: 2", "partitions: 4"), ("retention.ms: 1d", "retention.ms: 2d")) == ()


def test_the_headline_names_two_and_counts_the_rest() -> None:
    edits = [NoEffect("topic", name, "", "", "", f"deletes nothing: topic {name} stays on east") for name in "abcd"]
    assert lead(tuple(edits)) == (
        "This edit deletes nothing: topic a stays on east; it deletes nothing: topic b stays on east; "
        "2 more edits have no effect. "
    )


# every kind of entry, added, changed and removed

RICH = """
clusters:
  east:
    bootstrap_servers: ["east:9092"]
    region: eu
    client: {client.id: a}
    defaults: {replication_factor: 1, partitions: 1, configs: {max.message.bytes: "900000"}}
  west: {bootstrap_servers: ["west:9092"], defaults: {replication_factor: 1}}
  spare: {bootstrap_servers: ["spare:9092"]}
defaults: {configs: {compression.type: producer}}
classes:
  logs: {configs: {segment.ms: 1h}}
topics:
  orders: {clusters: [east], partitions: 2, configs: {retention.ms: 1d}, labels: {owner: shop}}
  pay: {clusters: [east], partitions: 1}
flows:
  east-to-west: {source: east, target: west, topics: [orders], lanes: 3, replication_factor: 1}
access:
  - {role: consumer, principal: "User:svc", clusters: [east], topics: [orders], groups: [svc]}
quotas:
  - {user: svc, clusters: [east], consumer_byte_rate: 1MiB}
users:
  - {name: svc, clusters: [east], mechanisms: [SCRAM-SHA-512], version: 1, password: "${env:SVC}", take_over: true}
deletions:
  - {cluster: east, topic: gone, topic_id: AAAAAAAAAAAAAAAAAAAAAA, reason: old, expires: 2099-01-01}
protected: [ledger]
shrink_limit: {percent: 50}
audit: {topic: audits}
docs_url: https://docs.example.org/
"""
EFFECT = ""
"""The plan has a change for it."""
CASES: tuple[tuple[str, str, str], ...] = (
    # clusters
    ("region: eu", "region: us", "cluster east (region eu -> us)"),
    ("client: {client.id: a}", "client: {client.id: b}", EFFECT),
    ('["spare:9092"]}', '["other:9092"]}', "cluster spare (bootstrap_servers"),
    ('["spare:9092"]}', '["spare:9092"], prune: {topics: ["x.*"]}}', "what plan --prune and apply --prune may delete"),
    ('["spare:9092"]}', '["spare:9092"], principals: {plan: {client.id: p}}}', "logs in as the principal mirror"),
    ('["spare:9092"]}', '["spare:9092"], reassignment: {throttle_bytes_per_second: 9MiB}}', "cluster spare (reassign"),
    ('  spare: {bootstrap_servers: ["spare:9092"]}\n', "", "in cluster spare: nothing there is compared any more"),
    ("  spare: {boot", '  new: {bootstrap_servers: ["new:9092"]}\n  spare: {boot', "cluster new: nothing on it"),
    # layers
    ('max.message.bytes: "900000"', 'max.message.bytes: "900001"', EFFECT),
    (', configs: {max.message.bytes: "900000"}', "", "max.message.bytes 900000 -> (not set)): topics keep"),
    ("partitions: 1, configs", "partitions: 5, configs", "for topics to be created"),
    ("compression.type: producer", "compression.type: lz4", EFFECT),
    ("defaults: {configs: {compression.type: producer}}\n", "", "defaults of the environment"),
    ("defaults: {configs: {c", "defaults: {lower_retention_by: {retention.ms: 1d}, configs: {c", "from now on"),
    ("defaults: {configs: {c", "defaults: {undeclared: remove, configs: {c", "defaults of the environment (undeclared"),
    ("segment.ms: 1h", "segment.ms: 2h", "class logs (configs.segment.ms"),
    ("classes:\n  logs: {configs: {segment.ms: 1h}}\n", "", "class logs: no topic gets its values any more"),
    ("  logs: {", "  more: {partitions: 4}\n  logs: {", "class more"),
    # topics
    ("partitions: 2", "partitions: 4", EFFECT),
    (", partitions: 2", "", "topic orders (partitions"),
    ("pay: {clusters: [east], partitions: 1", "pay: {clusters: [east], partitions: 1, replication_factor: 1", "(repl"),
    ("retention.ms: 1d", "retention.ms: 2d", EFFECT),
    (", configs: {retention.ms: 1d}", "", "resets nothing: retention.ms of orders stays 1d on east"),
    ("labels: {owner: shop}", "labels: {owner: crm}", "topic orders (labels.owner shop -> crm): labels are for people"),
    (", labels: {owner: shop}", "", "labels are for people"),
    ("pay: {clusters: [east]", "pay: {class: logs, clusters: [east]", EFFECT),
    ("pay: {clusters: [east]", "pay: {undeclared: remove, clusters: [east]", "topic pay (undeclared"),
    (
        "pay: {clusters: [east]",
        "pay: {lower_retention_by: {retention.ms: 1d}, clusters: [east]",
        "topic pay (lower_ret",
    ),
    ("pay: {clusters: [east]", "pay: {clusters: [east, west]", EFFECT),
    ("  pay: {clusters: [east], partitions: 1}\n", "", "deletes nothing: topic pay stays on east"),
    ("  pay: {", "  new: {clusters: [east]}\n  pay: {", EFFECT),
    # flows and mirrors
    ("lanes: 3", "lanes: 4", EFFECT),
    ("lanes: 3", "lanes: 3, labels: {a: b}", "labels are for people"),
    ("lanes: 3", "lanes: 3, start: latest", "moves no position"),
    ("lanes: 3", "lanes: 3, isolation: read_uncommitted", EFFECT),
    ("lanes: 3", "lanes: 3, sync_topic_configs: {exclude: [x]}", "it changes no remote topic"),
    ("lanes: 3", "lanes: 3, groups: {include: [a]}", "the job reads groups only with sync_offsets"),
    ("lanes: 3", "lanes: 3, access: {sync: true}", EFFECT),
    (", replication_factor: 1}\naccess", "}\naccess", "(replication_factor"),
    (
        "flows:\n  east-to-west: {source: east, target: west, topics: [orders], lanes: 3, replication_factor: 1}\n",
        "",
        EFFECT,
    ),
    ("access:\n", "mirrors:\n  west: {parallelism: 3}\naccess:\n", EFFECT),
    ("access:\n", "mirrors:\n  west: {verify_conf: {spark.app.name: v}}\naccess:\n", "only verify reads it"),
    # entries
    ("groups: [svc]", "groups: [svc, more]", EFFECT),
    (
        "access:\n",
        'access:\n  - {role: consumer, principal: "User:svc", clusters: [east], topics: [orders], groups: []}\n',
        "there",
    ),
    ("  - {role: consumer", "  - {role: consumer, absent: true", EFFECT),
    ("consumer_byte_rate: 1MiB", "consumer_byte_rate: 2MiB", EFFECT),
    ("  - {user: svc, clusters: [east], consumer_byte_rate: 1MiB}\n", "  []\n", "lifts nothing"),
    ("quotas:\n", "quotas:\n  - {user: none, clusters: [east], absent: true}\n", "user none: there is no such limit"),
    ("version: 1", "version: 2", EFFECT),
    ("users:\n", "users:\n  - {name: none, clusters: [east], absent: true}\n", "user none"),
    # rules for later runs
    (
        "  - {cluster: east, topic: gone",
        "  - {cluster: east, topic: gon2",
        "deletion east/gon2: the topic does not exist",
    ),
    ("reason: old", "reason: older", "deletion east/gone"),
    ("protected: [ledger]\n", "", "protection ledger: such topics may be deleted"),
    ("protected: [ledger]", "protected: [ledger, book]", "protection book"),
    ("percent: 50", "percent: 60", "limit shrink_limit"),
    ("audit: {topic: audits}\n", "", "audit topic audits"),
    ("docs.example.org", "pages.example.org", "setting docs_url"),
    (
        "docs_url:",
        "rollout: {waves: [{name: one, clusters: [east]}, {name: two, clusters: [west, spare]}]}\ndocs_url:",
        "rollout of the environment",
    ),
    ("docs_url:", "moved: [{environment: shop, from: store}]\ndocs_url:", EFFECT),
    ("audit: {topic: audits}", "audit: {topic: others}", EFFECT),
    (
        'west: {bootstrap_servers: ["west:9092"]',
        'west: {internal_topics: {configs: {segment.ms: 1h}}, bootstrap_servers: ["west:9092"]',
        EFFECT,
    ),
    ("docs_url:", "mirrors: {west: {hosted: true}}\ndocs_url:", EFFECT),
    # what is there already
    ("partitions: 1}", "partitions: 1, replication_factor: 1}", "1): the cluster is as declared"),
    ("partitions: 1}", "partitions: 1, undeclared: remove}", "remove): the cluster is as declared"),
)


@pytest.mark.parametrize(("old", "new", "said"), CASES)
def test_every_kind_of_edit_has_a_change_or_a_headline(
    old: str, new: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVC", "a")
    seen = world("east", "west", "spare", "new")
    seen.apply(load({"1.yaml": RICH}, "shop"))
    assert RICH.count(old) >= 1
    effectless, made, compared = Edit(seen, RICH).run(RICH.replace(old, new, 1))
    assert compared.items
    headline = lead(effectless)
    if said is EFFECT:
        assert made.changes, headline
        assert not headline
    else:
        assert said in headline, (headline, made.changes)


def test_entries_of_a_cluster_that_leaves_the_files_and_sections_that_come() -> None:
    both = BASE.replace("pay: {clusters: [east]", "pay: {clusters: [spare]").replace(
        "topics:\n", '  spare: {bootstrap_servers: ["spare:9092"], defaults: {replication_factor: 1}}\ntopics:\n', 1
    )
    seen = world("east", "west", "spare")
    seen.apply(load({"1.yaml": both}, "shop"))
    without = BASE.replace("  pay: {clusters: [east], partitions: 1}\n", "")
    why = {(each.kind, each.name): each.why for each in Edit(seen, both).run(without)[0]}
    assert "no longer declared" in why["topic", "pay"]
    for section in ("access", "quotas", "users"):
        [new] = applied().run(f"{BASE}{section}: []\n")[0]
        assert "read on every cluster from now on" in lead((new,))


def test_a_topic_that_was_never_made_and_comments_alone() -> None:
    edit = applied(BASE.replace("  pay: {clusters: [east], partitions: 1}\n", ""))
    found = Edit(edit.seen, BASE).run(edit.before)[0]
    assert "topic pay: it is not on east" in lead(found)
    nothing = EditComparison("shop", same_text=False)
    assert lead((), nothing) == ("This edit changes no declared value: only comments, layout, order or spelling. ")
    assert lead((), EditComparison("shop")) == ""


NEW_COPIES = ("lanes: 3", "lanes: 3, naming: {separator: '-'}")
NEW_TOPIC = ("  pay: {", "  fresh: {clusters: [east], partitions: 2}\n  pay: {")
NEW_REMOTE = ("topics: [orders], lanes: 3", "topics: [orders, pay], lanes: 3")


@pytest.mark.parametrize(
    ("old", "new", "beside", "said"),
    [
        ("orders: {", "orders: {lower_retention_by: {retention.ms: 1d}, ", NEW_COPIES, "topic orders (lower_ret"),
        ("orders: {", "orders: {undeclared: drift, ", NEW_COPIES, "topic orders (undeclared"),
        (", configs: {retention.ms: 1d}", "", NEW_TOPIC, "resets nothing: retention.ms of orders stays 1d on east"),
        ("partitions: 2", "partitions: 2, replication_factor: 1", NEW_COPIES, "topic orders (replication_factor"),
        (
            '["spare:9092"]}',
            '["spare:9092"], principals: {probe: {client.id: p}}}',
            NEW_TOPIC,
            "logs in as the principal",
        ),
        ("partitions: 1, configs", "partitions: 5, configs", NEW_TOPIC, "cluster east (defaults.partitions 1 -> 5)"),
        ("  logs: {", "  logs: {partitions: 4, ", NEW_TOPIC, "class logs (partitions"),
        ("segment.ms: 1h", "segment.ms: 2h", NEW_TOPIC, "class logs (configs.segment.ms"),
        ("defaults: {configs: {c", "defaults: {partitions: 9, configs: {c", NEW_TOPIC, "defaults of the environment"),
        ("  logs: {", "  logs: {replication_factor: 1, ", NEW_REMOTE, "class logs (replication_factor"),
        ("defaults: {configs: {c", "defaults: {replication_factor: 1, configs: {c", NEW_REMOTE, "defaults of the env"),
        ("defaults: {configs: {c", "defaults: {undeclared: drift, configs: {c", NEW_REMOTE, "(undeclared"),
    ],
)
def test_an_edit_without_effect_is_said_beside_one_that_has(
    old: str, new: str, beside: tuple[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVC", "a")
    seen = world("east", "west", "spare")
    seen.apply(load({"1.yaml": RICH}, "shop"))
    effectless, made, _ = Edit(seen, RICH).run(RICH.replace(old, new, 1).replace(*beside))
    assert made.changes
    assert said in lead(effectless), (effectless, made.changes)


def test_a_layer_has_an_effect_where_a_new_topic_takes_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVC", "a")
    seen = world("east", "west", "spare")
    seen.apply(load({"1.yaml": RICH}, "shop"))
    for layer, topic in (
        (("  logs: {", "  logs: {replication_factor: 1, "), "{clusters: [spare], class: logs}"),
        (("partitions: 1, configs", "partitions: 5, configs"), "{clusters: [east]}"),
        (("segment.ms: 1h", "segment.ms: 2h"), "{clusters: [east], class: logs}"),
    ):
        more = RICH.replace(*layer, 1).replace("  pay: {", f"  fresh: {topic}\n  pay: {{")
        assert lead(Edit(seen, RICH).run(more)[0]) == ""
