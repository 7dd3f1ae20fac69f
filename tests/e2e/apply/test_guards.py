"""Guards on real brokers: first contact, a wish that shrank, prune; what is remembered is kept beside the lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import git
import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.state.environment_records import read_applied
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.last_apply import Applied
from tests.support.clusters import CreateTopic
from tests.support.commands import Ended, two_clusters

Cli = Callable[..., Ended]


@pytest.fixture
def env(tmp_path: Path, unique: str) -> Callable[..., Path]:
    """An environment of its own, with these topics on east (each ``unique`` and a suffix)."""
    return _env(tmp_path / unique, unique)


@pytest.fixture
def strangers(tmp_path: Path, unique: str) -> Callable[..., Path]:
    """As ``env``, with clusters for which no id in git vouches."""
    return _env(tmp_path / unique, unique, with_ids=False)


def _env(folder: Path, unique: str, with_ids: bool = True) -> Callable[..., Path]:
    def make(sandbox: Sandbox, *topics: str, **extra: str) -> Path:
        folder.mkdir(exist_ok=True)
        lines = [f"  {unique}{name}: {{clusters: [east], partitions: 1, replication_factor: 1}}\n" for name in topics]
        body = f"topics:\n{''.join(lines)}" if topics else ""
        text = two_clusters(sandbox, with_ids, **extra) + body
        (folder / "topology.yaml").write_text(text, encoding="utf-8")
        return folder

    return make


def remembered(sandbox: Sandbox, environment: str) -> Applied | None:
    east = Cluster("east", (sandbox["east"].bootstrap_servers,))
    return read_applied(east, environment, Principal.APPLY)


def there(sandbox: Sandbox, *names: str) -> set[str]:
    with KafkaCluster(Cluster("east", (sandbox["east"].bootstrap_servers,))) as east:
        return set(east.read(names).topics)


def test_first_contact_is_checked_until_the_user_says_it_is_meant(
    cli: Cli, strangers: Callable[..., Path], plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    create_topic(plain["east"], f"{unique}theirs")
    here, cluster_id = strangers(plain, "a"), plain["east"].cluster_id
    planned = cli("plan", here)
    assert planned.code == 3
    assert f"{unique}a: create" in planned.out
    assert f"has never been changed from this environment: {cluster_id} answers" in planned.out
    refused = cli("apply", here, "--yes")
    assert refused.code == 3
    assert f"clusters.east.cluster_id: {cluster_id}" in refused.words
    assert there(plain, f"{unique}a") == set()
    assert remembered(plain, unique) is None
    assert cli("apply", here, "--yes", "--first-contact").code == 0
    found = remembered(plain, unique)
    assert found is not None
    assert found.clusters["east"] == cluster_id
    assert cli("apply", strangers(plain, "a", "b"), "--yes").code == 0


@pytest.mark.parametrize("more", [(), ("--until-caught-up",)])
def test_a_mirror_is_not_started_on_a_cluster_that_apply_refuses(
    more: tuple[str, ...],
    cli: Cli,
    strangers: Callable[..., Path],
    plain: Sandbox,
    create_topic: CreateTopic,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []
    monkeypatch.setattr(SparkRunner, "launch", lambda _, mirror, *__, **___: started.append(mirror))
    create_topic(plain["west"], f"{unique}theirs")
    here = strangers(plain, "a")
    file = here / "topology.yaml"
    text = file.read_text(encoding="utf-8").replace("east: {", f"east: {{cluster_id: {plain['east'].cluster_id}, ", 1)
    text += f"flows:\n  f: {{source: east, target: west, topics: [{unique}a], replication_factor: 1}}\n"
    file.write_text(text, encoding="utf-8")
    refused = cli("mirror", "start", here, *more)
    assert refused.code == 3, refused.words
    assert "cluster west has never been changed from this environment" in refused.words
    assert f"clusters.west.cluster_id: {plain['west'].cluster_id}" in refused.words
    assert started == []
    wrong = text.replace("west: {", f"west: {{cluster_id: {'A' * 22}, ", 1)
    file.write_text(wrong, encoding="utf-8")
    refused = cli("mirror", "start", here, *more)
    assert refused.code == 3, refused.words
    assert f"declared with cluster_id {'A' * 22}" in refused.words
    assert started == []


def test_an_id_in_git_vouches_for_its_cluster(
    cli: Cli, env: Callable[..., Path], plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    create_topic(plain["east"], f"{unique}theirs")
    assert cli("apply", env(plain, "a"), "--yes").code == 0


def test_a_saved_plan_does_not_get_past_the_guards(
    cli: Cli, strangers: Callable[..., Path], plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    create_topic(plain["east"], f"{unique}theirs")
    here = strangers(plain, "a")
    saved = here.parent / "plan.json"
    assert cli("plan", here, "--out", saved).code == 3
    assert cli("apply", here, "--plan", saved, "--yes").code == 3
    assert cli("apply", here, "--plan", saved, "--yes", "--first-contact").code == 0
    assert there(plain, f"{unique}a") == {f"{unique}a"}


def test_a_wish_that_shrank_is_refused_and_agreed_to_once(
    cli: Cli, env: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    names = [str(number) for number in range(8)]
    assert cli("apply", env(plain, *names), "--yes").code == 0
    found = remembered(plain, unique)
    assert found is not None
    assert len(found.topics) == 8
    here = env(plain, "0", "new")
    ended = cli("apply", here, "--yes")
    assert ended.code == 3
    assert "7 of 8 declared topics are gone since" in ended.words
    assert there(plain, f"{unique}new") == set()
    part = cli("apply", here, "--yes", "--partial")
    assert part.code == 5
    assert there(plain, f"{unique}new") == {f"{unique}new"}
    assert remembered(plain, unique) == found, "a wish nobody agreed to is not what the next one is held against"
    assert cli("apply", here, "--yes", "--allow-shrink").code == 0
    assert cli("apply", here, "--yes").code == 0
    assert there(plain, *(f"{unique}{name}" for name in names)) == {f"{unique}{name}" for name in names}


def test_prune_needs_the_list_and_the_option_twice(
    cli: Cli, env: Callable[..., Path], plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    for name in ("a", "b"):
        create_topic(plain["east"], f"{unique}old{name}")
    here = env(plain, "a", east=f", prune: {{topics: ['{unique}old.*']}}")
    assert cli("apply", here, "--yes").code == 0
    told = cli("plan", here)
    assert told.code == 0
    assert f"plan --prune would delete 2 unmanaged topics of east: {unique}olda, {unique}oldb" in told.out
    saved = here.parent / "plan.json"
    assert cli("plan", here, "--prune", "--out", saved).code == 2
    refused = cli("apply", here, "--plan", saved, "--yes")
    assert refused.code == 3
    assert f"delete:east/{unique}olda" in refused.words
    assert there(plain, f"{unique}olda") == {f"{unique}olda"}
    assert cli("apply", here, "--plan", saved, "--yes", "--prune").code == 0
    assert there(plain, f"{unique}olda", f"{unique}oldb") == set()


def test_saving_a_plan_that_prunes_too_much_agrees_to_nothing(
    cli: Cli, env: Callable[..., Path], plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    for number in range(7):
        create_topic(plain["east"], f"{unique}old{number}")
    here = env(plain, east=f", prune: {{topics: ['{unique}old.*']}}")
    text = (here / "topology.yaml").read_text("utf-8")
    (here / "topology.yaml").write_text(f"{text}shrink_limit: {{percent: 1, least: 2}}\n", encoding="utf-8")
    saved = here.parent / "plan.json"
    assert cli("plan", here, "--prune", "--out", saved).code == 3
    refused = cli("apply", here, "--plan", saved, "--yes", "--prune")
    assert refused.code == 3
    assert "would be pruned, more than 1 %" in refused.words
    assert there(plain, f"{unique}old0") == {f"{unique}old0"}
    assert cli("apply", here, "--plan", saved, "--yes", "--prune", "--allow-shrink").code == 0
    assert there(plain, f"{unique}old0", f"{unique}old6") == set()


def test_what_is_asked_for_meanwhile_is_no_longer_pruned(
    cli: Cli, env: Callable[..., Path], plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    """A source that appears after the plan makes its remote topic one that is asked for."""
    create_topic(plain["east"], f"west.{unique}x")
    flow = f"flows:\n  back: {{source: west, target: east, topics: ['{unique}.*']}}\nmirrors: {{}}\n"
    here = env(plain, east=f", prune: {{topics: ['west\\.{unique}.*']}}")
    text = (here / "topology.yaml").read_text("utf-8")
    (here / "topology.yaml").write_text(text + flow, encoding="utf-8")
    saved = here.parent / "plan.json"
    assert cli("plan", here, "--prune", "--out", saved).code == 2
    create_topic(plain["west"], f"{unique}x")
    ended = cli("apply", here, "--plan", saved, "--yes", "--prune")
    assert ended.code == 4
    assert f"delete:east/west.{unique}x" in ended.words
    assert there(plain, f"west.{unique}x") == {f"west.{unique}x"}


def repository(folder: Path) -> git.Repo:
    repo = git.Repo.init(folder, initial_branch="main")
    with repo.config_writer() as config:
        config.set_value("user", "name", "ada")
        config.set_value("user", "email", "ada@example.com")
    return repo


def forget_history(repo: git.Repo) -> None:
    """One new commit is all that the repository has."""
    before = repo.active_branch.name
    repo.git.checkout("--orphan", f"not-{before}")
    repo.git.commit(m="others", all=True)
    repo.git.branch("-D", before)
    repo.git.reflog("expire", "--expire=now", "--all")
    repo.git.gc("--prune=now")


def test_two_repositories_with_one_name_for_an_environment_notice_each_other(
    cli: Cli, env: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    here = env(plain, "a")
    repo = repository(here.parent)
    repo.git.add(A=True)
    repo.git.commit(m="topics")
    origin = repo.create_remote("origin", "https://ada:hunter2@git.example/one/topics.git")
    assert cli("apply", here, "--yes").code == 0
    found = remembered(plain, unique)
    assert found is not None
    assert found.origin == f"git.example/one/topics:{unique}"

    env(plain, "a", "b")
    origin.set_url("git@git.example:two/topics.git")
    assert cli("plan", here).code == 2, "a fork has the commit of that apply"
    forget_history(repo)
    planned = cli("plan", here, "--out", here.parent / "plan.json")
    assert planned.code == 3
    assert f"from git.example/one/topics:{unique}, and this is git.example/two/topics:{unique}" in planned.out
    for more in ((), ("--partial",), ("--plan", here.parent / "plan.json")):
        assert cli("apply", here, "--yes", *more).code in (3, 5)
    assert there(plain, f"{unique}b") == set()
    assert remembered(plain, unique) == found

    origin.set_url("git@git.example:one/topics.git")
    assert cli("apply", here, "--yes").code == 0, "the same repository, reached in another way"
    env(plain, "a", "b", "c")
    forget_history(repo)
    origin.set_url("git@git.example:two/topics.git")
    assert cli("apply", here, "--yes", "--first-contact").code == 0
    moved = remembered(plain, unique)
    assert moved is not None
    assert moved.origin == f"git.example/two/topics:{unique}"


def test_a_plan_of_an_older_clone_says_that_a_later_commit_was_applied(
    cli: Cli, env: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    here = env(plain, "a")
    repo = repository(here.parent)

    def committed(name: str) -> str:
        repo.git.add(A=True)
        repo.git.commit(m=name)
        return str(repo.head.commit.hexsha)

    committed("one")
    assert cli("apply", here, "--yes").code == 0
    topology = here / "topology.yaml"
    topology.write_text(topology.read_text().replace("partitions: 1", "partitions: 2"))
    second = committed("two")
    assert cli("apply", here, "--yes").code == 0
    assert cli("plan", here).code == 0
    repo.git.checkout("HEAD~1")
    topology.write_text(topology.read_text() + f"  {unique}b: {{clusters: [east], partitions: 1}}\n")
    assert f"was of commit {second[:12]}, which this checkout at" in " ".join(cli("plan", here).out.split())


def test_a_cluster_that_is_now_the_first_by_name_does_not_take_the_memory_away(
    cli: Cli, env: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    here = env(plain)
    servers, cluster_id = plain["west"].bootstrap_servers, plain["west"].cluster_id
    west = f"clusters: {{west: {{bootstrap_servers: ['{servers}'], cluster_id: {cluster_id}}}}}\ntopics:\n"
    names = [f"{unique}{number}" for number in range(6)]
    (here / "topology.yaml").write_text(
        west + "".join(f"  {name}: {{clusters: [west], partitions: 1}}\n" for name in names)
    )
    assert cli("apply", here, "--yes").code == 0
    env(plain, "new")
    planned = cli("plan", here)
    assert planned.code == 3
    assert "6 of 6 declared topics are gone since" in planned.out
    assert cli("apply", here, "--yes", "--allow-shrink").code == 0
    home = Cluster("west", (plain["west"].bootstrap_servers,))
    found = read_applied(home, unique, Principal.APPLY)
    assert found is not None
    assert found.topics == (f"east/{unique}new",), "it is kept where it was"
    assert remembered(plain, unique) is None
