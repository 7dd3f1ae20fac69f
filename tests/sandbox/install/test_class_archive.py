"""The archive of Kafka's classes: used where it is, and never needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from reconciler_sandbox.brokers import up_down
from reconciler_sandbox.install import class_archive, prerequisites
from reconciler_sandbox.paths import JARS


def test_without_one_a_broker_is_started_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "classes.jsa")
    assert class_archive.flags() == ()


@pytest.mark.kafka
def test_one_that_cannot_be_read_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "classes.jsa")
    class_archive.ARCHIVE.write_text("of another Java")
    command = [prerequisites.java(), *class_archive.flags(), "-version"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.kafka
@pytest.mark.long
def test_a_jvm_takes_kafkas_classes_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "classes.jsa")
    assert up_down.archive_classes() == tmp_path / "classes.jsa"
    [flag] = class_archive.flags()
    command = [prerequisites.java(), flag, "-XX:+UseSerialGC", "-Xshare:on", "-Xlog:class+load", "-cp", f"{JARS}/*"]
    done = subprocess.run([*command, "kafka.Kafka", "--version"], check=False, capture_output=True, text=True)
    assert "kafka.Kafka source: shared objects file (top)" in done.stdout
