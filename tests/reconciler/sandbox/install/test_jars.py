"""Jars are those of the committed list, and Maven is asked only when they are not there."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from reconciler.sandbox.errors import SandboxError
from reconciler.sandbox.install import jars, prerequisites
from reconciler.sandbox.paths import CHECKSUMS

CONTENT = {"a.jar": b"a", "b.jar": b"b"}


@pytest.fixture
def checksums(tmp_path: Path) -> Path:
    file = tmp_path / "jars.sha256"
    file.write_text("".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in CONTENT.items()))
    return file


def serve(monkeypatch: pytest.MonkeyPatch, content: dict[str, bytes]) -> list[Path]:
    """Maven's place is taken by a copy of ``content``; returns the folders it was asked to fill."""
    asked: list[Path] = []

    def copy(folder: Path) -> None:
        asked.append(folder)
        for name, data in content.items():
            (folder / name).write_bytes(data)

    monkeypatch.setattr(jars, "copy_from_maven", copy)
    return asked


def test_fetched_once_then_trusted(tmp_path: Path, checksums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = serve(monkeypatch, CONTENT)
    folder = tmp_path / "jars"
    jars.ensure(folder=folder, checksums=checksums)
    jars.ensure(folder=folder, checksums=checksums)
    assert len(asked) == 1
    assert {jar.name: jar.read_bytes() for jar in folder.glob("*.jar")} == CONTENT


def test_a_jar_that_is_not_the_listed_one_is_never_put_in_place(
    tmp_path: Path, checksums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, {**CONTENT, "b.jar": b"other"})
    folder = tmp_path / "jars"
    with pytest.raises(SandboxError) as refused:
        jars.ensure(folder=folder, checksums=checksums)
    assert "b.jar has sha256 " + hashlib.sha256(b"other").hexdigest() in str(refused.value)
    assert "listed is " + hashlib.sha256(b"b").hexdigest() in str(refused.value)
    assert not list(folder.glob("*.jar"))
    assert not jars.complete(folder, checksums)


@pytest.mark.parametrize("fault", ["changed", "deleted", "added"])
def test_a_fault_in_the_folder_is_noticed_and_mended(
    fault: str, tmp_path: Path, checksums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, CONTENT)
    folder = jars.ensure(folder=tmp_path / "jars", checksums=checksums)
    match fault:
        case "changed":
            (folder / "a.jar").write_bytes(b"longer")
        case "deleted":
            (folder / "a.jar").unlink()
        case _:
            (folder / "c.jar").write_bytes(b"c")
    assert not jars.complete(folder, checksums)
    jars.ensure(folder=folder, checksums=checksums)
    assert {jar.name: jar.read_bytes() for jar in folder.glob("*.jar")} == CONTENT


def test_jars_that_are_there_without_a_stamp_need_no_download(
    tmp_path: Path, checksums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = serve(monkeypatch, {})
    folder = tmp_path / "jars"
    folder.mkdir()
    for name, data in CONTENT.items():
        (folder / name).write_bytes(data)
    jars.ensure(folder=folder, checksums=checksums)
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


def test_the_committed_list_holds_what_is_started() -> None:
    listed = jars.expected(CHECKSUMS.read_text())
    assert {"kafka_2.13-4.3.0.jar", "connect-mirror-4.3.0.jar", "kafka-tools-4.3.0.jar"} <= set(listed)
    assert all(len(digest) == 64 for digest in listed.values())
