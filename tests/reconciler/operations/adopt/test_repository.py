"""``init --repository``: a repository of environments that has nothing of this project's source."""

from __future__ import annotations

import re
from email.message import Message
from pathlib import Path
from typing import Never

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from reconciler.cli.main import app, main
from reconciler.errors import ReconcilerError
from reconciler.operations.adopt import init
from reconciler.operations.adopt.init import TEMPLATES, actions_of, environment_in, write_repository
from tests.support.commands import take
from tests.support.paths import ROOT

ACTIONS = "example/kafka-topology-reconciler@v1.2.0"


def written(repository: Path, actions: str = ACTIONS) -> list[str]:
    return list(write_repository(repository, repository / "environments" / "prod", actions_of(actions)))


def test_every_file_names_the_environment_and_the_actions_at_their_version(tmp_path: Path) -> None:
    assert written(tmp_path)[0].startswith("Wrote 8 files")
    texts = {path: (tmp_path / path).read_text() for path in TEMPLATES}
    for path, text in texts.items():
        assert not re.search(r"\b(OWNER|REF|ENVIRONMENT|NAME)\b", text), path
        if path.endswith((".yml", ".yaml")):
            assert YAML(typ="safe").load(text)
    uses = re.findall(r"uses: (\S+)", "".join(texts.values()))
    assert len(uses) == 7
    assert all(re.fullmatch(r"example/kafka-topology-reconciler/\.github/actions/\w+@v1\.2\.0", one) for one in uses)
    hook = YAML(typ="safe").load(texts[".pre-commit-config.yaml"])["repos"][0]
    assert (hook["rev"], hook["hooks"][0]["args"]) == ("v1.2.0", ["environments/prod"])
    assert "`prod-apply`" in texts["README.md"]


def test_files_that_exist_are_kept_and_named(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("ours\n")
    assert "  kept as they are: README.md" in written(tmp_path)
    assert (tmp_path / "README.md").read_text() == "ours\n"
    assert written(tmp_path)[0].startswith("Wrote 0 files"), "a second run continues where the first one ended"


@pytest.mark.parametrize("owner", ["OWNER", "example"])
def test_the_actions_are_those_of_the_publisher_and_one_that_is_not_known_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    released = Message()
    released["Project-URL"] = f"Repository, https://github.com/{owner}/kafka-topology-reconciler"
    monkeypatch.setattr(init, "metadata", lambda _: released)
    assert any("the OWNER of the actions" in line for line in written(tmp_path, "")) == (owner == "OWNER")
    assert f"uses: {owner}/kafka-topology-reconciler/" in (tmp_path / ".github/workflows/plan.yml").read_text()


def test_a_cluster_that_does_not_answer_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def silent(*_: object) -> Never:
        raise ReconcilerError("cluster east does not answer", "No connection.", "Check that the brokers run.")

    monkeypatch.setattr(init, "read_live", silent)
    repository, asked = tmp_path / "repo", ["--cluster", "east=e:9092", "--security-protocol", "PLAINTEXT"]
    with pytest.raises(SystemExit) as ended:
        main(["init", "--repository", str(repository), *asked, "--flow", "none", "--actions", ACTIONS])
    assert ended.value.code == 1
    assert "cluster east does not answer" in capfd.readouterr().err
    assert not repository.exists()


def test_without_clusters_only_the_repository_is_written_also_beside_an_environment(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["init", "--repository", str(tmp_path), "--actions", ACTIONS]
    for next_step in ("reconciler init ", "reconciler plan "):
        with pytest.raises(SystemExit):
            main(command)
        assert f"next:\n  {next_step}{tmp_path / 'environments' / 'prod'}" in capfd.readouterr().out
        (tmp_path / "environments" / "prod").mkdir(parents=True, exist_ok=True)
        (tmp_path / "environments" / "prod" / "topics.yaml").touch()


@pytest.mark.parametrize("actions", ["example", "example/tool", "@v1", "example/tool@v1 # x", "example/tool@v1\nx: y"])
def test_what_names_no_repository_and_version_is_refused_and_nothing_is_written(tmp_path: Path, actions: str) -> None:
    with pytest.raises(ReconcilerError, match="--actions is"):
        written(tmp_path, actions)
    assert not list(tmp_path.iterdir())


def test_an_environment_that_no_workflow_would_find_is_refused(tmp_path: Path) -> None:
    assert environment_in(tmp_path, None) == tmp_path / "environments" / "prod"
    assert environment_in(tmp_path, tmp_path / "environments" / "eu") == tmp_path / "environments" / "eu"
    for outside in (tmp_path / "prod", tmp_path / "environments", tmp_path / "environments" / "eu" / "prod"):
        with pytest.raises(ReconcilerError, match="is not a folder of"):
            environment_in(tmp_path, outside)


def test_the_pre_commit_hook_that_is_written_is_one_of_this_project_and_a_command_line(tmp_path: Path) -> None:
    written(tmp_path)
    (hook,) = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (used,) = YAML(typ="safe").load((tmp_path / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert used["id"] == hook["id"]
    words = [*str(hook["entry"]).split(), *map(str, used["args"])]
    assert words == ["reconciler", "validate", "environments/prod"]
    take(get_command(app), words[1:])
    assert re.search(hook["files"], "environments/prod/topics.yaml")
    assert not hook["pass_filenames"], "validate reads the whole folder"
