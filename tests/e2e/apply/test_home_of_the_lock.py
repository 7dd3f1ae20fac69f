"""The lock stays where it is, whatever clusters are added, renamed or removed; two applies never run at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.state.environment_records import read_applied, read_holder
from reconciler.model.environment.topology import Principal
from tests.support.clusters import real_cluster, topics
from tests.support.commands import Ended, running

Cli = Callable[..., Ended]


@pytest.fixture
def env_of(tmp_path: Path, unique: str, plain: Sandbox) -> Callable[..., Path]:
    """``env_of(host, west="aaa")``: a checkout of the environment with these clusters of the sandbox, by their names
    here; each declares a topic."""

    def make(host: str, suffix: str = "a", **names: str) -> Path:
        folder = tmp_path / host / unique
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["clusters:"]
        for real, name in names.items():
            handle = plain[real]
            servers = handle.bootstrap_servers
            lines.append(f"  {name}: {{bootstrap_servers: ['{servers}'], cluster_id: {handle.cluster_id}}}")
        where = ", ".join(names.values())
        lines.append(f"topics: {{{unique}-{suffix}: {{clusters: [{where}], partitions: 1, replication_factor: 1}}}}")
        (folder / "topology.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return folder

    return make


def test_a_cluster_that_sorts_first_is_added_while_an_apply_is_under_way(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    with running(env_of("one", west="west"), "--interval", "60s", "--autonomy", "all") as first:
        first.until("done")
        edited = env_of("two", "b", west="west", east="east")
        for _ in range(2):
            ended = cli("apply", edited, "--yes")
            assert ended.code == 6
            assert f"process {first.process.pid} (run)" in ended.words
        assert f"process {first.process.pid} (run)" in cli("status", edited).out
        assert f"{unique}-b" not in topics(plain["east"]) | topics(plain["west"])
        assert first.ends() == 0
    ended = cli("apply", edited, "--yes")
    assert ended.code == 0, ended.words
    assert read_applied(real_cluster(plain["east"]), unique, Principal.APPLY) is None, "the home is where it was"
    assert cli("apply", env_of("one", "c", west="west"), "--yes", "--allow-shrink").code == 0


def test_the_home_is_renamed_and_the_lock_is_found_under_its_new_name(
    cli: Cli, env_of: Callable[..., Path], unique: str
) -> None:
    assert cli("apply", env_of("one", east="east", west="west"), "--yes").code == 0
    with running(env_of("one", east="east", west="west"), "--interval", "60s") as first:
        first.until("round")
        ended = cli("apply", env_of("two", east="zebra", west="west"), "--yes")
        assert ended.code == 6
        assert f"process {first.process.pid} (run)" in ended.words
        assert first.ends() == 0
    ended = cli("apply", env_of("two", east="zebra", west="west"), "--yes")
    assert ended.code == 0, ended.words


def test_a_home_that_leaves_the_files_is_missed_until_the_lock_has_moved(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    both = env_of("one", east="east", west="west")
    assert cli("apply", both, "--yes").code == 0
    without = env_of("two", west="west")
    refused = cli("apply", without, "--yes", "--allow-shrink")
    assert refused.code == 3
    assert f"is on east (id {plain['east'].cluster_id}" in refused.words
    assert "apply --move-lock CLUSTER" in refused.words
    assert "does not declare" in cli("plan", without).words

    moved = cli("apply", both, "--yes", "--move-lock", "west")
    assert moved.code == 0, moved.words
    assert read_holder(real_cluster(plain["east"]), unique, Principal.APPLY) is None
    assert read_applied(real_cluster(plain["west"]), unique, Principal.APPLY) is not None
    assert cli("apply", both, "--yes", "--move-lock", "nowhere").code == 1
    with running(without, "--interval", "60s") as first:
        first.until("round")
        assert cli("apply", both, "--yes").code == 6
        assert first.ends() == 0
    ended = cli("apply", without, "--yes", "--allow-shrink")
    assert ended.code == 0, ended.words
    assert "does not declare" in cli("plan", env_of("two", east="east")).words


def test_a_home_that_is_lost_for_ever_is_given_up_with_a_reason(
    cli: Cli, env_of: Callable[..., Path], unique: str
) -> None:
    assert cli("apply", env_of("one", east="east", west="west"), "--yes").code == 0
    ended = cli("apply", env_of("two", west="west"), "--yes", "--steal-lock", "east burned down")
    assert ended.code == 0, ended.words
    again = env_of("one", "b", east="east", west="west")
    ended = cli("apply", again, "--yes")
    assert ended.code == 0, ended.words
    assert cli("apply", env_of("two", "b", west="west"), "--yes").code == 0, "the newer word on the home holds"


def test_a_silent_home_stops_an_apply_but_not_mirror_stop(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    both = env_of("one", east="east", west="west")
    assert cli("apply", both, "--yes").code == 0
    text = (both / "topology.yaml").read_text("utf-8")
    flow = "flows: {down: {source: east, target: west, topics: ['none.*']}}\n"
    silent = text.replace(plain["east"].bootstrap_servers, "127.0.0.1:9") + flow
    (both / "topology.yaml").write_text(silent, encoding="utf-8")
    refused = cli("apply", both, "--yes", "--partial")
    assert refused.code == 1
    assert f"Cluster east keeps the lock of environment {unique}" in refused.words
    stopped = cli("mirror", "stop", both)
    assert stopped.code == 0, stopped.words
    assert "cluster east, which keeps the environment's lock, does not answer: taken on west" in stopped.words
    (both / "topology.yaml").write_text(text, encoding="utf-8")
    assert read_holder(real_cluster(plain["west"]), unique, Principal.APPLY) is not None
    ended = cli("apply", both, "--yes")
    assert ended.code == 0, ended.words
    assert read_holder(real_cluster(plain["west"]), unique, Principal.APPLY) is None
    assert read_holder(real_cluster(plain["east"]), unique, Principal.APPLY) is not None
