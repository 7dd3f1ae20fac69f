"""A rule that was there before, is declared and then taken out of the files, against real authorizers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import git
import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AdminClient, ResourceType
from confluent_kafka.admin import AclPermissionType as Permission
from confluent_kafka.admin import ResourcePatternType as Pattern
from reconciler_sandbox.handles import Sandbox

from tests.support.clusters import secured_clusters
from tests.support.commands import Ended

pytestmark = pytest.mark.kafka("secure")


def test_adopted_rules_are_revoked_once_an_apply_found_them(
    cli: Callable[..., Ended],
    tmp_path: Path,
    secure: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    create_topic: Callable[..., str],
    unique: str,
) -> None:
    topic, who = create_topic(secure["east"], f"{unique}-orders"), f"User:{unique}"
    admin = AdminClient({**secure["east"].super_client(), "log_level": "0"})
    found = AclBinding(ResourceType.TOPIC, topic, Pattern.LITERAL, who, "*", AclOperation.READ, Permission.ALLOW)
    for future in admin.create_acls([found]).values():
        future.result(20)
    lines = [*secured_clusters(secure, monkeypatch), f"topics: {{{topic}: {{clusters: [east]}}}}"]
    rule = f'access:\n  - {{role: consumer, principal: "{who}", clusters: [east], topics: [{topic}], groups: []}}'
    env = tmp_path / unique
    env.mkdir()
    file = env / "topology.yaml"

    def write(access: str) -> None:
        file.write_text("\n".join([*lines, access]) + "\n", encoding="utf-8")

    write(rule)
    with git.Repo.init(tmp_path, initial_branch="main") as repo:
        repo.git.add(unique)
        repo.git.execute(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "adopted"])

    write("access: []")
    lost = cli("plan", env, "--base", "main")
    assert lost.code == 0, lost.words
    assert lost.out.startswith(f"This edit revokes nothing: 1 access rule of {who} stays on east. No changes:")
    assert "put the entry back with absent: true" in lost.out

    write(rule)
    assert "1 declared access rule of east, there before" in cli("plan", env).out
    applied = cli("apply", env, "--yes", "--first-contact")
    assert applied.code == 0, applied.words
    assert "1 declared rule of before, ours from now on" in applied.err
    assert "there before" not in cli("plan", env).out

    write("access: []")
    revoked = cli("plan", env, "--base", "main")
    assert revoked.code == 2, revoked.words
    assert revoked.out.startswith("1 change on 1 cluster: deletes 1 access rule")
    document = json.loads(cli("plan", env, "--base", "main", "--format", "json").out)
    assert document["without_effect"] == []
    assert cli("apply", env, "--yes").code == 0
    assert cli("plan", env).code == 0
