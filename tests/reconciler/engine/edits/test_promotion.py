"""Two environments side by side: what they never share makes no difference, everything else does."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given

from reconciler.engine.edits.promotion import promotion
from reconciler.environment.load import load
from reconciler.errors import ExitCode, ReconcilerError
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.edit import PromotionReport
from reconciler.render.markup import Format
from reconciler.render.reports.promotion import promotion_in
from tests.support.paths import SCHEMAS
from tests.support.worlds import topologies

PROD = """
clusters:
  east: {bootstrap_servers: [east.prod:9092], region: eu, client: {security.protocol: SSL}, cluster_id: one}
  west: {bootstrap_servers: [west.prod:9092], region: us}
defaults: {replication_factor: 3}
topics:
  orders: {clusters: [east], partitions: 12, configs: {retention.ms: 7d}}
flows:
  east-to-west: {source: east, target: west, topics: [orders], lanes: 4}
access:
  - {principal: User:app, clusters: [east], role: consumer, topics: [orders], groups: [app]}
quotas:
  - {clusters: [east], user: app, producer_byte_rate: 1MiB}
deletions:
  - {topic: old, cluster: east, topic_id: AbCdEfGhIjKlMnOpQrStUv, reason: gone, expires: 2099-01-31}
rollout: {waves: [{name: first, clusters: [east]}, {name: rest, clusters: [west]}]}
"""
STAGING = (
    PROD.replace("east", "s-east")
    .replace("west", "s-west")
    .replace(".prod", ".staging")
    .replace("User:app", "User:s-app")
)
NAMES = {"s-east": "east", "s-west": "west", "User:s-app": "User:app"}


def declared(text: str, name: str) -> Topology:
    return load({"all.yaml": text}, name)


def compared(staging: str, prod: str = PROD, names: dict[str, str] = NAMES) -> PromotionReport:
    return promotion(declared(staging, "staging"), declared(prod, "prod"), names)


def told(report: PromotionReport) -> set[tuple[str, str, str]]:
    return {(item.sign.value, item.kind, item.name) for item in report.comparison.items}


def test_names_addresses_ids_regions_and_tombstones_make_no_difference() -> None:
    report = compared(STAGING.replace("region: eu", "region: test").replace("cluster_id: one", "cluster_id: two"))
    assert told(report) == set()
    assert report.exit_code is ExitCode.DONE
    assert report.paired == {"s-east-to-s-west": "east-to-west", "s-west": "west"} or report.paired == {
        "s-east-to-s-west": "east-to-west"
    }


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("partitions: 12", "partitions: 6", "topic"),
        ("retention.ms: 7d", "retention.ms: 1d", "topic"),
        ("lanes: 4", "lanes: 2", "flow"),
        ("role: consumer", "role: producer", "access rule"),
        ("1MiB", "2MiB", "quota"),
        ("replication_factor: 3", "replication_factor: 2", "defaults"),
        ("[s-west]}]", "[s-west], soak: 5m}]", "rollout"),
        ("region: us", "region: us, defaults: {partitions: 3}", "cluster"),
    ],
)
def test_each_kind_of_declaration_that_differs_is_reported(old: str, new: str, kind: str) -> None:
    assert old in STAGING
    changed = STAGING.replace(old, new).replace(", groups: [app]", "" if "producer" in new else ", groups: [app]")
    report = compared(changed)
    assert {item_kind for _, item_kind, _ in told(report)} == {kind}
    assert report.exit_code is ExitCode.CHANGES


def test_what_only_one_side_has_is_reported_with_its_side() -> None:
    more = "topics:\n  pay: {clusters: [s-east], partitions: 3}\n"
    assert told(compared(STAGING.replace("topics:\n", more, 1))) == {("+", "topic", "pay")}
    prod = PROD.replace("topics:\n", more.replace("s-east", "east"), 1)
    assert told(compared(STAGING, prod)) == {("-", "topic", "pay")}


def test_without_the_map_clusters_are_other_clusters() -> None:
    assert ("+", "cluster", "s-east") in told(compared(STAGING, names={}))
    assert ("-", "cluster", "east") in told(compared(STAGING, names={}))


def test_former_names_of_flows_and_of_the_environment_make_no_difference() -> None:
    moved = "moved: [{from: stage-1, environment: staging}]\n"
    assert declared(STAGING + moved, "staging").moved_from == ("stage-1",)
    assert told(compared(STAGING + moved)) == set()


def test_a_mapped_principal_has_its_new_name_wherever_files_name_it() -> None:
    more = "users:\n  - {clusters: [east], name: app, version: 1, password: '${env:APP}'}\n"
    prod = PROD.replace("topics: [orders], lanes", "topics: [orders], access: {principals: {User:app: User:b}}, lanes")
    prod += more
    staging = (
        prod.replace("User:app", "User:s-app").replace("user: app", "user: s-app").replace("name: app", "name: s-app")
    )
    for name in ("east", "west"):
        staging = staging.replace(name, f"s-{name}")
    assert told(compared(staging, prod)) == set()
    quotas = "quotas:\n  - {clusters: [east], user: app, producer_byte_rate: 1MiB}\n"
    head = PROD.partition("topics:\n")[0]
    named = promotion(
        declared(head + quotas.replace("app", "s-app"), "a"), declared(head + quotas, "b"), {"User:s-app": "User:app"}
    )
    assert told(named) == set()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"nobody": "east"}, "environment staging has nothing named nobody"),
        ({"s-east": "eest"}, "environment prod has nothing named eest"),
        ({"s-east": "east", "s-west": "east"}, "s-east and s-west of staging would both be east"),
    ],
)
def test_a_map_that_cannot_be_meant_is_refused(names: dict[str, str], words: str) -> None:
    with pytest.raises(ReconcilerError, match=words):
        compared(STAGING, names=names)


@pytest.mark.parametrize("form", [Format.TEXT, Format.MARKDOWN, Format.HTML, Format.JSON])
def test_every_format_names_what_differs(form: Format) -> None:
    report = compared(STAGING.replace("retention.ms: 7d", "retention.ms: 1d"))
    text = promotion_in(report, form)
    assert "retention.ms" in text
    assert "staging" in text
    if form is Format.JSON:
        document = json.loads(text)
        schema = json.loads((SCHEMAS / "reports" / "comparison.schema.json").read_text("utf-8"))
        jsonschema.Draft202012Validator(schema).validate(document)
        assert (document["exit_code"], document["equal"]) == (2, False)


@given(topologies())
def test_an_environment_is_as_its_copy_in_another_place(one: Topology) -> None:
    assert told(promotion(replace(one, environment="other"), one, {})) == set()


def test_words_name_the_side_that_has_it() -> None:
    staging = STAGING.replace("partitions: 12", "partitions: 6").replace(
        "topics:\n  orders:", "topics:\n  fresh: {clusters: [s-east], partitions: 1}\n  orders:"
    )
    report = compared(staging)
    text = promotion_in(report, Format.TEXT)
    head = text.splitlines()[0]
    assert head == "staging and prod differ: only in staging 1 topic; in both, with other values 1 topic"
    assert "topic fresh: only in staging" in text
    rows = [line.split() for line in text.splitlines()]
    assert rows.index(["field", "staging", "prod"]) + 1 == rows.index(["partitions", "6", "12"])
    assert "if prod follows: " in text
    assert " -> " not in text
    for form in (Format.MARKDOWN, Format.HTML):
        assert "partitions: 6 in staging, 12 in prod" in promotion_in(report, form)
