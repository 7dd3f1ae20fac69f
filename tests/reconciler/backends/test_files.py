"""Folders and files: what is read, what is refused, and texts written whole or not at all."""

from __future__ import annotations

import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.backends import files
from reconciler.backends.files import read_environment, read_readable, write_text, write_texts
from reconciler.errors import Problem, ReconcilerError, TopologyError
from reconciler.operations.importers.mirrormaker import read as import_mirrormaker
from reconciler.operations.review.plan import read_plan


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


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    (missing,) = _problems(tmp_path / "prod")
    assert (missing.code, missing.where.file) == ("no-folder", str(tmp_path / "prod"))
    (tmp_path / "file").write_text("x")
    assert "a file, not a folder" in _problems(tmp_path / "file")[0].what


@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_too_large_for_an_environment_is_left_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    env = tmp_path / "prod"
    home = tmp_path / "home" if linked else env / "home"
    for number in range(20):
        (home / f"{number}/more").mkdir(parents=True)
        (home / f"{number}/more/a.txt").touch()
    if linked:
        env.mkdir()
        (env / "home").symlink_to(home)
    (env / "a.yaml").write_text("topics: {}")
    monkeypatch.setattr(files, "MOST_OTHERS", 60)
    (found,) = _problems(env)
    assert (found.code, found.where.file) == ("no-folder", str(env))
    assert "more than 60 files and folders" in found.what
    monkeypatch.setattr(files, "MOST_OTHERS", 61)
    assert list(read_environment(env)) == [str(env / "a.yaml")]


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
    assert "byte 9, 0xFC" in problems[1].what
    assert str(tmp_path / "nowhere") in problems[0].todo, "a link that leads nowhere is no question of permissions"


def test_what_can_be_read_is_given_beside_the_problems(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("topics: {}")
    (tmp_path / "latin.yaml").write_bytes("topics: {ü: 1}".encode("latin-1"))
    texts, (problem,) = read_readable(tmp_path)
    assert (texts, problem.code) == ({str(tmp_path / "good.yaml"): "topics: {}"}, "not-utf8")
    assert [one.code for one in read_readable(tmp_path / "gone")[1]] == ["no-folder"]


def test_the_place_of_a_byte_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("a: ü\nbä: ".encode() + b"\xe9\n")
    (problem,) = _problems(tmp_path)
    assert (problem.where.line, problem.where.column) == (2, 5)


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("a.yaml")
    (problem,) = _problems(tmp_path)
    assert problem.code == "unreadable"
    assert "the link, which leads to a.yaml" in problem.todo


def test_a_linked_folder_is_refused_and_linked_files_are_read(tmp_path: Path) -> None:
    shared, env = tmp_path / "shared", tmp_path / "prod"
    (shared / "more").mkdir(parents=True)
    env.mkdir()
    (shared / "more" / "a.yaml").write_text("a")
    (env / "b.yaml").symlink_to(shared / "more" / "a.yaml")
    (env / "..data").symlink_to(shared)  # as Kubernetes mounts a ConfigMap: files link through it
    (env / "docs").symlink_to(tmp_path / "nothing-to-read")
    assert read_environment(env) == {str(env / "b.yaml"): "a"}
    (env / "shared").symlink_to(shared)
    (found,) = _problems(env)
    assert (found.code, found.where.file) == ("linked-folder", str(env / "shared"))
    assert str(shared) in found.what


def test_a_submodule_that_is_not_checked_out_is_refused_and_an_empty_folder_is_not(tmp_path: Path) -> None:
    env = tmp_path / "environments" / "prod"
    (env / "shared").mkdir(parents=True)
    (env / "notes").mkdir()
    (env / "a.yaml").write_text("a")
    (tmp_path / ".git").mkdir()
    assert read_environment(env) == {str(env / "a.yaml"): "a"}
    modules = tmp_path / ".gitmodules"
    modules.write_text('[submodule "shared"]\n\tpath = environments/prod/shared\n\turl = https://git.example/s\n')
    (found,) = _problems(env)
    assert (found.code, found.where.file) == ("not-fetched", str(env / "shared"))
    (env / "shared" / "b.yaml").write_text("b")
    assert len(read_environment(env)) == 2


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert [problem.code for problem in _problems(tmp_path)] == ["unreadable"]


def test_a_path_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"prod\xff")
    folder.mkdir()
    (folder / "a.yaml").write_text("a")
    assert [problem.code for problem in _problems(folder)] == ["not-utf8"]


def test_a_text_written_over_another_keeps_its_permissions_and_its_link(tmp_path: Path) -> None:
    real, link, new, shared = (tmp_path / name for name in ("real.yaml", "link.yaml", "new.yaml", "shared.yaml"))
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    before = os.umask(0o022)
    try:
        write_text(link, "new")
        write_text(new, "new")
        write_texts({shared: "new"})
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o600, "a plan or report tells of clusters"
    assert stat.S_IMODE(shared.stat().st_mode) == 0o644, "a file of an environment is for git"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "told\n")
        assert os.read(reader, 100) == b"told\n"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_of_several_texts_all_are_written_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b"
    first.write_text("old")
    second.mkdir()
    with pytest.raises(ReconcilerError, match=f"{second} cannot be written: Is a directory"):
        write_texts({first: "new", second: "new"})
    assert first.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml", "b"]
    write_texts({first: "new", second / "c.yaml": "new"})
    assert (first.read_text(), (second / "c.yaml").read_text()) == ("new", "new")


def test_links_that_lead_to_each_other_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(ReconcilerError, match="cannot be written"):
        write_text(tmp_path / "a", "new")


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


@pytest.mark.parametrize("given", ["/dev/zero", "plan.json"])
def test_a_file_that_a_command_is_given_has_an_end(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_GIVEN", 1 << 20)
    (tmp_path / "plan.json").write_bytes(b" " * ((1 << 20) + 1))
    path = tmp_path / given
    with pytest.raises(ReconcilerError, match="more than 1 MiB"):
        read_plan(path)
    with pytest.raises(ReconcilerError, match="more than 1 MiB"):
        import_mirrormaker([path], tmp_path / "environment")
    (tmp_path / "small").write_bytes(b"ab")
    assert files.read_given(tmp_path / "small") == b"ab"


@pytest.mark.parametrize("before", [True, False])
def test_a_named_pipe_is_read_where_a_process_writes_to_it(tmp_path: Path, before: bool) -> None:
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        time.sleep(0 if before else 0.5)
        with (tmp_path / "pipe").open("wb") as pipe:
            time.sleep(0.5)
            pipe.write(b"a" * 100_000)
            pipe.flush()
            time.sleep(0.2)
            pipe.write(b"b")

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        assert files.read_given(tmp_path / "pipe") == b"a" * 100_000 + b"b"
        writing.result(10)


@pytest.mark.timeout(20)
def test_a_named_pipe_without_another_end_keeps_no_command_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WRITER_WITHIN_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReconcilerError, match="no process writes to"):
        read_plan(tmp_path / "pipe")
    with pytest.raises(ReconcilerError, match="no process writes to"):
        import_mirrormaker([tmp_path / "pipe"], tmp_path / "environment")
    with pytest.raises(ReconcilerError, match="cannot be written"):
        write_text(tmp_path / "pipe", "a plan")
