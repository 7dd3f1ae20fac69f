"""``drift --accept`` and ``--parity`` on real brokers: what somebody changed by hand ends in the file, or is told."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.commands import Ended, Write, two_clusters
from tests.support.fakes.receiver import receiving
from tests.support.waiting import until

Cli = Callable[..., Ended]
CreateTopic = Callable[..., str]


def set_by_hand(cluster: ClusterHandle, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({**cluster.super_client(), "log_level": "0"})
    [future] = admin.incremental_alter_configs([resource]).values()
    future.result(20)
    until(lambda: _config_of(admin, topic, key) == value)  # the controller answers before the broker that is asked


def _config_of(admin: AdminClient, topic: str, key: str) -> str | None:
    [described] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    value: str | None = described.result(20)[key].value
    return value


def test_a_value_changed_manually_is_drift_until_it_is_accepted(
    cli: Cli, write: Write, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east = plain["east"]
    create_topic(east, unique, 1, retention_ms="3600000")
    line = f"topics: {{{unique}: {{clusters: [east], configs: {{retention.ms: 1h}}}}}}   # agreed\n"
    env = write(two_clusters(plain) + line)
    assert cli("drift", env).code == 0
    set_by_hand(east, unique, "retention.ms", "7200000")
    found = cli("drift", env)
    assert (found.code, "live: 2h (topic), declared: 1h" in found.out, "not-told" in found.out) == (2, True, True)
    before = (env / "topology.yaml").read_text()
    shared = env.parent / "shared.yaml"
    (env / "topology.yaml").rename(shared)
    (env / "topology.yaml").symlink_to("../shared.yaml")
    accepted = cli("drift", env, "--accept", f"east/{unique}")
    assert accepted.code == 0, accepted.words
    assert f"a link to {shared.resolve()}: every environment that links to it changes" in accepted.out
    assert (env / "topology.yaml").read_text() == before.replace("retention.ms: 1h", "retention.ms: 2h")
    assert cli("drift", env).code == 0


def test_after_an_apply_of_ours_a_manual_change_is_known_to_come_from_outside_and_webhooks_get_both(
    cli: Cli, write: Write, plain: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = f"topics: {{{unique}: {{clusters: [east], partitions: 1, configs: {{retention.ms: 1h}}}}}}\n"
    env = write(two_clusters(plain) + topics + "webhooks: [{url: '${env:HOOK}'}]\n")
    with receiving() as receiver:
        monkeypatch.setenv("HOOK", receiver.url)
        assert cli("apply", env, "--yes").code == 0
        assert cli("apply", env, "--yes").code == 0, "nothing to do, and no notice"
        set_by_hand(plain["east"], unique, "retention.ms", "7200000")
        [difference] = json.loads(cli("drift", env, "--format", "json").out)["differences"]
        receiver.status = 500
        refused = cli("drift", env)
    assert difference["cause"] == "edited-outside", difference
    assert (refused.code, "did not reach the webhook ${env:HOOK}: it answered 500" in refused.words) == (2, True)
    assert "s3cret" not in refused.words
    events = [(body["event"], body["state"]) for _, body in receiver.got]
    assert events == [("apply", "done"), ("drift", "drift"), ("drift", "drift")]
    assert receiver.got[0][1]["details"] == [f"create:east/{unique}"]


def test_a_plan_begins_with_what_changed_outside_until_an_apply_has_seen_it(
    cli: Cli, write: Write, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    """Deleted, recreated, edited, and an override that counts as drift; the record comes from the last apply."""
    east, names = plain["east"], [f"{unique}-{word}" for word in ("again", "gone", "orders")]
    again, gone, orders = names
    lines = "".join(f"  {name}: {{clusters: [east], partitions: 3, configs: {{flush.ms: 1h}}}}\n" for name in names)
    env = write(f"{two_clusters(plain)}defaults: {{undeclared: drift}}\ntopics:\n{lines}")
    assert cli("apply", env, "--yes").code == 0
    assert "Changed outside" not in cli("plan", env).out
    admin = AdminClient({**east.super_client(), "log_level": "0"})
    ids = {name: topic_id(admin, name) for name in names}
    for future in admin.delete_topics([again, gone]).values():
        future.result(20)
    until(lambda: not {again, gone} & admin.list_topics(timeout=30).topics.keys())
    create_topic(east, again, 3, flush_ms="3600000")
    set_by_hand(east, orders, "retention.ms", "60000")

    planned = cli("plan", env)
    assert planned.code == 2, planned.words
    assert "Changed outside of git (3)" in planned.out
    told = planned.out[planned.out.index("Changed outside of git (3)") : planned.out.index("declared topics")]
    assert f"! east/{again} deleted and recreated: topic id {ids[again]} -> topic id {topic_id(admin, again)}" in told
    assert f"- east/{gone} deleted: topic id {ids[gone]}, 3 partitions -> no topic, since the apply of 20" in told
    assert f"~ east/{orders} retention.ms: not set -> 1m, since the apply of 20" in told
    report = json.loads(cli("drift", env, "--format", "json").out)
    causes = {(one["subject"], one["kind"]): (one["cause"], one["why"]) for one in report["differences"]}
    assert {kind for _, kind in causes} == {"made-anew", "topic-missing", "undeclared-override"}
    assert {cause for cause, _ in causes.values()} == {"edited-outside"}
    assert f"topic id {ids[again]} -> topic id" in causes[f"east/{again}", "made-anew"][1]
    assert ids[gone] in causes[f"east/{gone}", "topic-missing"][1]

    assert cli("drift", env, "--accept", f"east/{orders}:retention.ms").code == 0
    assert (
        f"  {orders}: {{clusters: [east], partitions: 3, configs: {{retention.ms: 1m, flush.ms: 1h}}}}"
        in (env / "topology.yaml").read_text()
    )
    assert cli("apply", env, "--yes").code == 0
    after = cli("plan", env)
    assert (after.code, "Changed outside" in after.out) == (0, False), after.words
    assert cli("drift", env).code == 0


def test_a_lower_limit_set_on_a_source_manually_is_not_planned_for_its_copy_unasked(
    cli: Cli, write: Write, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    create_topic(plain["east"], unique, 1, retention_ms="60000")
    create_topic(plain["west"], f"east.{unique}", 1)
    env = write(
        f"{two_clusters(plain)}topics: {{{unique}: {{clusters: [east], partitions: 1}}}}\n"
        f"flows: {{f: {{source: east, target: west, topics: [{unique}]}}}}\n"
    )
    planned = cli("plan", env)
    assert planned.code == 3, planned.words
    assert f"west/east.{unique} retention.ms would go from 7d to 1m, as east/{unique} has it" in planned.out
    assert "[undeclared-lower-limit]" in planned.out
    (env / "topology.yaml").write_text((env / "topology.yaml").read_text() + "defaults: {undeclared: remove}\n")
    planned = cli("plan", env)
    assert (planned.code, f"east.{unique}: retention.ms" in planned.out) == (2, False), planned.words
    assert "retention.ms: 1m (topic) -> remove the override (in no file, and undeclared is remove" in planned.out


def topic_id(admin: AdminClient, name: str) -> str:
    [future] = admin.describe_topics(TopicCollection([name])).values()
    return str(future.result(20).topic_id).replace("+", "-").replace("/", "_")


def test_parity_of_both_sides(cli: Cli, write: Write, plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    create_topic(plain["east"], unique, 3, retention_ms="3600000")
    create_topic(plain["west"], f"east.{unique}", 3, retention_ms="3600000")
    env = write(two_clusters(plain) + f"flows: {{f: {{source: east, target: west, topics: [{unique}]}}}}\n")
    assert cli("drift", env, "--parity").code == 0
    set_by_hand(plain["west"], f"east.{unique}", "retention.ms", "60000")
    found = cli("drift", env, "--parity")
    assert (found.code, "retention.ms: 1h on the source, 1m on the target" in found.out) == (2, True), found.words
    page = cli("drift", env, "--parity", "--format", "markdown")
    assert (page.code, page.out.startswith("<!-- reconciler-parity")) == (2, True), page.words


@pytest.mark.parametrize("more", [("--format", "json"), ("--out", "report.txt")])
def test_what_is_accepted_is_reported_to_people_alone(cli: Cli, write: Write, more: tuple[str, str]) -> None:
    """Else a program would be given text for JSON, or a file that nobody writes."""
    ended = cli("drift", write("topics: {}\n"), "--accept", "east/orders", *more)
    assert (ended.code, ended.out) == (1, "")
    assert f"--accept is given with {more[0]}" in ended.err
