"""An edit reviewed against running clusters: its meaning, what it would do, the way back, where values come from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import git
import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.engine.plan import file as planfile
from reconciler.model.changes import AlterConfigs
from reconciler.model.environment.topology import TopicRef
from tests.support.clusters import CreateTopic, produce
from tests.support.commands import Ended, two_clusters

Cli = Callable[..., Ended]


class Edited:
    """A repository with one environment, applied as ``main`` has it."""

    def __init__(self, folder: Path, sandbox: Sandbox, name: str) -> None:
        self.repo = git.Repo.init(folder, initial_branch="main")
        with self.repo.config_writer() as config:
            config.set_value("user", "name", "a")
            config.set_value("user", "email", "a@example.com")
        self.env = folder / name
        self.env.mkdir()
        self.clusters = two_clusters(sandbox)
        self.name = name

    def write(self, topics: str, more: str = "") -> None:
        text = f"{self.clusters}{more}topics:\n{topics}"
        (self.env / "topology.yaml").write_text(text, encoding="utf-8")

    def commit(self) -> None:
        self.repo.git.add(A=True)
        self.repo.git.commit(m="edit")


@pytest.fixture
def edited(cli: Cli, tmp_path: Path, plain: Sandbox, unique: str) -> Edited:
    made = Edited(tmp_path / "repo", plain, unique)
    made.write(
        f"  {unique}: {{clusters: [east], partitions: 2, replication_factor: 1, configs: {{retention.ms: 30d}}}}\n"
    )
    made.commit()
    assert cli("apply", made.env, "--yes").code == 0
    produce(plain["east"], unique, {20: 30, 0: 10})
    return made


def test_the_edit_and_then_what_it_does_to_the_clusters(cli: Cli, edited: Edited, tmp_path: Path, unique: str) -> None:
    edited.write(
        f"  {unique}: {{clusters: [east], partitions: 4, replication_factor: 1, class: short}}\n"
        f"  {unique}new: {{clusters: [west]}}\n",
        "classes: {short: {configs: {retention.ms: 10d}}}\n",
    )
    files = [tmp_path / f"review{ending}" for ending in (".md", ".html", ".json", ".txt")]
    written = [word for file in files for word in ("--write", file)]
    ended = cli("plan", edited.env, "--base", "main", "--out", tmp_path / "plan.json", *written)
    assert ended.code == 2, ended.words
    head, _, rest = ended.out.partition("What the edit means")
    edit, _, live = rest.partition("\n1. ")
    assert head.startswith("3 changes on 2 clusters"), "the plan's headline is the only one"
    assert "with uncommitted changes" in edit
    assert "partitions: 2 -> 4" in edit
    assert "+ class short" in edit
    assert "retention.ms: 30d (topic) -> 10d (class short)" in live
    assert "holds at most 40 records" in live
    assert "at most 30 of these are past the new limit and are deleted at once" in live
    assert live.count("past the new limit") == 1, "it is about the retention, not about the partitions"
    assert "no consumer group reads it" in live
    assert "Kafka 4." in head
    markdown, page, document, text = (file.read_text("utf-8") for file in files)
    assert json.loads(document)["plan"]["changes"][0]["stakes"] is not None
    assert all("30 of these are past the new limit" in one for one in (markdown, page, text))
    assert cli("plan", edited.env, "--changed-since", "main").code == 2
    edited.commit()
    untouched = cli("plan", edited.env, "--changed-since", "HEAD")
    assert (untouched.code, "nothing to plan" in untouched.out) == (0, True)
    assert cli("apply", edited.env, "--plan", tmp_path / "plan.json", "--yes").code == 0, "committing changes no wish"


def test_the_way_back_names_what_does_not_come_back(cli: Cli, edited: Edited, unique: str) -> None:
    edited.write(f"  {unique}: {{clusters: [east], partitions: 4, configs: {{retention.ms: 30d}}}}\n")
    edited.commit()
    assert cli("apply", edited.env, "--yes").code == 0
    ended = cli("plan", edited.env, "--base", "HEAD~1", "--revert")
    assert ended.code == 3
    assert f"partitions of east/{unique} cannot shrink from 4 to 2" in ended.out
    assert "Cannot be undone" in ended.out


def test_explain_puts_live_values_beside_the_layers(cli: Cli, edited: Edited, unique: str) -> None:
    edited.write(
        f"  {unique}: {{clusters: [east], partitions: 2, class: long}}\n",
        "defaults: {configs: {retention.ms: 7d}}\nclasses: {long: {configs: {retention.ms: 60d}}}\n",
    )
    told = cli("explain", edited.env, f"{unique}:retention.ms")
    assert told.code == 0
    [line] = [line for line in told.out.splitlines() if line.strip().startswith("retention.ms")]
    assert "60d  live 30d (topic)  class long" in line
    assert "over 7d by default of the environment" in line
    found = json.loads(cli("explain", edited.env, f"east/{unique}", "--format", "json").out)
    assert found["asked"] is True
    assert found["topics"][0]["live"].startswith("on the cluster")
    assert cli("explain", edited.env, "no-such-topic").code == 1


def test_an_edit_that_fixes_a_broken_base_is_planned(cli: Cli, edited: Edited, tmp_path: Path, unique: str) -> None:
    good = (edited.env / "topology.yaml").read_text()
    edited.write(f"  {unique}: {{clusters: [east], partitions: many}}\n")
    edited.commit()
    (edited.env / "topology.yaml").write_text(good.replace("30d", "31d"))
    page = tmp_path / "comment.md"
    ended = cli("plan", edited.env, "--base", "HEAD", "--changed-since", "HEAD", "--write", page)
    assert ended.code == 2, ended.words
    assert "is not known: that commit is not valid" in ended.out
    assert re.search(r"HEAD:\S+topology\.yaml:\d.*many", ended.out)
    for told in (ended.out, page.read_text()):
        assert re.search(r"retention\.ms.*31d", told)
    assert json.loads(cli("plan", edited.env, "--base", "HEAD", "--format", "json").out)["kind"] == "plan"
    assert cli("plan", edited.env, "--base", "HEAD", "--revert").code == 1


def test_a_saved_plan_of_an_empty_topic_is_stale_once_it_has_records(
    cli: Cli, write: Callable[..., Path], plain: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """It was agreed to at medium risk, because nothing could be lost."""
    create_topic(plain["east"], unique, 1)
    desired = f"topics:\n  {unique}: {{clusters: [east], configs: {{retention.ms: 1h}}}}\n"
    env, saved = write(two_clusters(plain) + desired, unique), tmp_path / "plan.json"
    planned = cli("plan", env, "--out", saved)
    assert "medium risk: it holds no record now" in planned.out
    honest = saved.read_text()
    for forged in (_with(honest, after="1"), _with(honest, topic=f"{unique}other")):
        saved.write_text(forged)
        told = cli("apply", env, "--plan", saved, "--yes")
        assert told.code == 4, told.words
        assert "the saved plan holds what a fresh plan does not; nothing was applied" in told.err
    saved.write_text(honest)
    produce(plain["east"], unique, {0: 10})
    ended = cli("apply", env, "--plan", saved, "--yes")
    assert ended.code == 4
    assert f"records of east/{unique}: was none, is at most 10" in ended.words
    assert "HIGH risk" in cli("plan", env, "--out", saved).out
    assert cli("apply", env, "--plan", saved, "--yes").code == 0


def _with(saved: str, after: str = "", topic: str = "") -> str:
    """The plan with another change, and the digest that belongs to it: everybody can work it out."""
    made = planfile.loads(saved)
    (planned,) = made.changes
    change = planned.change
    assert isinstance(change, AlterConfigs)
    if after:
        change = replace(change, configs=tuple(replace(config, after=after) for config in change.configs))
    if topic:
        change = replace(change, ref=TopicRef("east", topic))
        planned = replace(planned, id=f"{planned.id}other")
    return planfile.dumps(replace(made, changes=(replace(planned, change=change),)))
