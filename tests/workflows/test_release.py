"""A tag is released only as the version that both packages and the changelog have."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from ruamel.yaml import YAML

from requirements.index_readme import for_the_index
from tests.support.paths import ROOT

SCRIPT = ROOT / ".github" / "scripts" / "tag_is_version"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("tag_is_version", str(SCRIPT))
    spec = importlib.util.spec_from_loader("tag_is_version", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """This project as version 9.8.7, its changelog with it."""
    for name in ("pyproject.toml", "sandbox/pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
        text = (tmp_path / name).read_text("utf-8")
        version = text.replace("0.1.0", "9.8.7").replace("## [Unreleased]", "## [9.8.7] - 2026-12-01")
        (tmp_path / name).write_text(version.replace("/OWNER/", "/example/"), "utf-8")
    return tmp_path


def test_the_version_with_its_changes_is_released(script: ModuleType, release: Path) -> None:
    assert script.problems(release, "v9.8.7") == []


@pytest.mark.parametrize("tag", ["v9.8.6", "9.8.7", "v9.8.7-rc1", ""])
def test_another_tag_is_not(script: ModuleType, release: Path, tag: str) -> None:
    (problem,) = script.problems(release, tag)
    assert f"the tag is {tag} and pyproject.toml has version 9.8.7" in problem


@pytest.mark.parametrize(
    ("name", "before", "after", "says"),
    [
        ("sandbox/pyproject.toml", 'version = "9.8.7"', 'version = "9.8.6"', "has version 9.8.6"),
        ("sandbox/pyproject.toml", "reconciler==9.8.7", "reconciler", "another dependency"),
        ("CHANGELOG.md", "## [9.8.7]", "## [Unreleased]", "no section [9.8.7]"),
        ("pyproject.toml", "/example/", "/OWNER/", "make owner OWNER=example"),
    ],
)
def test_what_was_left_behind_is_named(
    script: ModuleType, release: Path, name: str, before: str, after: str, says: str
) -> None:
    text = (release / name).read_text("utf-8")
    assert before in text
    (release / name).write_text(text.replace(before, after), "utf-8")
    (problem,) = script.problems(release, "v9.8.7")
    assert says in problem


def test_one_command_names_the_publisher_in_each_file(script: ModuleType, tmp_path: Path) -> None:
    naming = [line.split() for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if "NAMING_OWNER :=" in line]
    files = [Path(name) for name in naming[0][2:]]
    for path in (Path("Makefile"), Path("CHANGELOG.md"), *files):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    assert subprocess.run(["make", "-s", "owner"], cwd=tmp_path, capture_output=True).returncode != 0
    assert any("make owner" in problem for problem in script.problems(tmp_path, "v0.1.0"))
    subprocess.run(["make", "-s", "owner", "OWNER=example-org"], cwd=tmp_path, check=True)
    assert not any("make owner" in problem for problem in script.problems(tmp_path, "v0.1.0"))
    for path in files:
        text = (tmp_path / path).read_text("utf-8")
        assert text == (ROOT / path).read_text("utf-8").replace("OWNER/", "example-org/") != (ROOT / path).read_text()
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.old")) == []


def test_links_of_the_page_on_the_index_lead_to_files_of_the_tag() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", for_the_index(text, "https://github.com/example/tool", "9.8.7"))
    kinds = [
        re.fullmatch(r"https://github\.com/example/tool/(blob|raw)/v9\.8\.7/([^#]+)(#.*)?", link) for link in links
    ]
    assert None not in kinds, links
    assert {"blob", "raw"} == {kind[1] for kind in kinds if kind}, "pages as pages, pictures as files"
    assert [kind[2] for kind in kinds if kind and not (ROOT / kind[2]).exists()] == []
    kept = "[x](#compared) [y](https://semver.org) [z](mailto:a@example.net)"
    assert for_the_index(kept, "https://github.com/example/tool", "9.8.7") == kept


def test_each_upload_has_the_wheel_and_the_archive_of_one_package(tmp_path: Path) -> None:
    """Beside both packages the build's artifact holds the bill of materials, which PyPI refuses."""
    job = YAML(typ="safe").load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]["publish"]
    (step,) = (each for each in job["steps"] if "run" in each)
    names = [
        f"{name}-1.2.3{end}"
        for name in job["strategy"]["matrix"]["project"]
        for end in (".tar.gz", "-py3-none-any.whl")
    ]
    for place, project in enumerate(job["strategy"]["matrix"]["project"]):
        folder = tmp_path / project
        (folder / "all").mkdir(parents=True)
        for name in (*names, "sbom.cdx.json"):
            (folder / "all" / name).touch()
        environ = {"PATH": os.environ["PATH"], "PROJECT": project}
        subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=folder, env=environ, check=True)
        assert sorted(path.name for path in (folder / "dist").iterdir()) == sorted(names[2 * place : 2 * place + 2])


@pytest.mark.parametrize(
    ("verified", "code"),
    [("echo true", 0), ("echo false", 1), ("exit 1", 1)],
    ids=["signed", "not by one whom GitHub knows", "no tag object"],
)
def test_a_tag_without_a_verified_signature_is_not_released(tmp_path: Path, verified: str, code: int) -> None:
    steps = YAML(typ="safe").load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]["build"]["steps"]
    (step,) = (each for each in steps if "verification.verified" in each.get("run", ""))
    assert step["if"] == "github.ref_type == 'tag'"
    (tmp_path / "gh").write_text(
        f'#!/bin/sh\ncase "$2" in */ref/tags/v1.2.3) echo abc ;; */tags/abc) {verified} ;; esac\n'
    )
    (tmp_path / "gh").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "REPOSITORY": "o/r", "TAG": "v1.2.3"}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], env=environ, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert ("(tag -s v1.2.3)" in done.stdout) == bool(code)
