"""Jars are those of the committed list, and Maven is asked only when they are not there."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.releases import MIRRORMAKER, NEWEST, RELEASES, Release, release_of

CONTENT = {"a.jar": b"a", "b.jar": b"b"}


@pytest.fixture
def release(tmp_path: Path) -> Release:
    file = tmp_path / "jars.sha256"
    file.write_text("".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in CONTENT.items()))
    return replace(NEWEST, jars=tmp_path / "jars", checksums=file)


def serve(monkeypatch: pytest.MonkeyPatch, content: dict[str, bytes]) -> list[Path]:
    """Maven's place is taken by a copy of ``content``; returns the folders it was asked to fill."""
    asked: list[Path] = []

    def copy(folder: Path, _: Release) -> None:
        asked.append(folder)
        for name, data in content.items():
            (folder / name).write_bytes(data)

    monkeypatch.setattr(jars, "copy_from_maven", copy)
    return asked


def test_fetched_once_then_trusted(tmp_path: Path, release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = serve(monkeypatch, CONTENT)
    folder = release.jars
    jars.ensure(release=release)
    jars.ensure(release=release)
    assert len(asked) == 1
    assert {jar.name: jar.read_bytes() for jar in folder.glob("*.jar")} == CONTENT


def test_a_jar_that_is_not_the_listed_one_is_never_put_in_place(
    tmp_path: Path, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, {**CONTENT, "b.jar": b"other"})
    folder = release.jars
    with pytest.raises(SandboxError) as refused:
        jars.ensure(release=release)
    assert "b.jar has sha256 " + hashlib.sha256(b"other").hexdigest() in str(refused.value)
    assert "listed is " + hashlib.sha256(b"b").hexdigest() in str(refused.value)
    assert not list(folder.glob("*.jar"))
    assert not jars.complete(release)


@pytest.mark.parametrize("fault", ["changed", "deleted", "added"])
def test_a_fault_in_the_folder_is_noticed_and_fixed(
    fault: str, tmp_path: Path, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, CONTENT)
    folder = jars.ensure(release=release)
    match fault:
        case "changed":
            (folder / "a.jar").write_bytes(b"longer")
        case "deleted":
            (folder / "a.jar").unlink()
        case _:
            (folder / "c.jar").write_bytes(b"c")
    assert not jars.complete(release)
    jars.ensure(release=release)
    assert {jar.name: jar.read_bytes() for jar in folder.glob("*.jar")} == CONTENT


def test_jars_that_exist_without_a_stamp_need_no_download(
    tmp_path: Path, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = serve(monkeypatch, {})
    folder = release.jars
    folder.mkdir()
    for name, data in CONTENT.items():
        (folder / name).write_bytes(data)
    jars.ensure(release=release)
    assert not asked


def test_mavens_own_words_reach_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "[ERROR] Could not resolve kafka_2.13\n[INFO] noise\n", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(prerequisites, "java", lambda: "java")
    monkeypatch.setattr(prerequisites, "maven", lambda: "mvn")
    with pytest.raises(SandboxError) as refused:
        jars.copy_from_maven(tmp_path)
    assert "Could not resolve kafka_2.13" in str(refused.value)
    assert "noise" not in str(refused.value)


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_the_committed_list_holds_what_is_started(release: Release) -> None:
    listed = jars.expected(release.checksums.read_text())
    wanted = {f"kafka_2.13-{release.version}.jar", f"kafka-clients-{release.version}.jar"}
    if release == NEWEST:
        wanted.add(f"kafka-tools-{release.version}.jar")
    if release == MIRRORMAKER:
        wanted.add(f"connect-mirror-{release.version}.jar")
    assert wanted <= set(listed)
    assert all(len(digest) == 64 for digest in listed.values())
    assert not release.zookeeper or any(name.startswith("zookeeper-") for name in listed)


def test_maven_is_asked_for_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(prerequisites, "java", lambda: "java")
    monkeypatch.setattr(prerequisites, "maven", lambda: "mvn")
    jars.copy_from_maven(tmp_path, RELEASES["2.8.2"])
    assert {"-Dkafka.version=2.8.2", str(RELEASES["2.8.2"].pom)} <= set(asked[0])


@pytest.mark.parametrize(
    ("chosen", "east", "west"),
    [
        ("", "4.4.0", "4.4.0"),
        ("3.9.1", "3.9.1", "3.9.1"),
        ("east=2.8.2", "2.8.2", "4.4.0"),
        ("3.9.1,west=3.3.2", "3.9.1", "3.3.2"),
    ],
)
def test_the_release_of_a_cluster_is_chosen(chosen: str, east: str, west: str) -> None:
    environ = {"SANDBOX_KAFKA": chosen}
    assert (release_of("east", environ).version, release_of("west", environ).version) == (east, west)


def test_a_release_without_a_list_is_refused() -> None:
    with pytest.raises(SandboxError, match=r"there is no sandbox of Kafka .3\.7\.0.") as refused:
        release_of("east", {"SANDBOX_KAFKA": "3.7.0"})
    assert "4.4.0, 4.3.0, 3.9.1, 3.3.2, 2.8.2" in str(refused.value)
