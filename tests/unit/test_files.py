"""Folders and files: what is read, what is refused, and texts written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.edges.files import read_environment, write_text
from reconciler.errors import Problem, ReconcilerError, TopologyError


def _problems(folder: Path) -> tuple[Problem, ...]:
    with pytest.raises(TopologyError) as caught:
        read_environment(folder)
    return caught.value.problems


def test_every_yaml_below_the_folder_is_read_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "topics" / "more").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    wanted = {"b.yaml": "b", "a.yaml": "ü", "topics/c.yaml": "c\n", "topics/more/d.yaml": ""}
    for name, text in {**wanted, "README.md": "x", ".hidden.yaml": "x", ".git/x.yaml": "x"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_environment(tmp_path) == {str(tmp_path / name): text for name, text in wanted.items()}


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (missing,) = _problems(tmp_path / "prod")
    assert (missing.code, missing.where.file) == ("no-folder", str(tmp_path / "prod"))
    (tmp_path / "file").write_text("x")
    assert "a file, not a folder" in _problems(tmp_path / "file")[0].what


def test_a_folder_without_yaml(tmp_path: Path) -> None:
    assert [problem.code for problem in _problems(tmp_path)] == ["no-files"]


def test_all_problems_of_all_files_at_once(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("topics: {}")
    (tmp_path / "latin.yaml").write_bytes("topics: {ü: 1}".encode("latin-1"))
    (tmp_path / "old.yml").write_text("topics: {}")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    problems = _problems(tmp_path)
    assert [(problem.code, Path(problem.where.file).name) for problem in problems] == [
        ("unreadable", "gone.yaml"),
        ("not-utf8", "latin.yaml"),
        ("wrong-extension", "old.yml"),
    ]
    assert "byte 9" in problems[1].what


def test_a_written_text_is_there_whole_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "plans" / "plan.json"
    write_text(path, "old\n")
    write_text(path, "nü\n")
    assert path.read_bytes() == "nü\n".encode()
    assert [each.name for each in path.parent.iterdir()] == ["plan.json"]


def test_a_text_that_cannot_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ReconcilerError, match="cannot be written"):
        write_text(tmp_path / "folder", "x")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ReconcilerError, match="cannot be written"):
        write_text(tmp_path / "file" / "below", "x")
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "file", "\ud800")
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]
