"""The demo's edits: on a copy that begins from the committed files, one small change each, comments kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from reconciler_sandbox.demo import copy_environment as demo_copy
from reconciler_sandbox.errors import SandboxError

from reconciler.backends.mirror_jobs.runner.run_folder import state_folder

COMMITTED = demo_copy.COMMITTED
ADDRESSES = {"east": "127.0.0.1:39000", "west": "127.0.0.1:39050"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The committed files, and a place of our own for the copy."""
    committed = tmp_path / "environments" / "sandbox"
    committed.mkdir(parents=True)
    for path in COMMITTED.glob("*.yaml"):
        (committed / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(demo_copy, "COMMITTED", committed)
    monkeypatch.setattr(demo_copy, "COPY", tmp_path / "demo" / "environments" / "sandbox")
    return committed


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}


def changed(diff: str) -> list[str]:
    return [line for line in diff.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))]


def test_the_copy_with_the_default_ports_is_the_committed_text(elsewhere: Path) -> None:
    copy = demo_copy.reset({"east": "127.0.0.1:19092", "west": "127.0.0.1:29092"})
    assert texts(copy) == texts(elsewhere)


def test_other_ports_change_the_addresses_and_nothing_else(elsewhere: Path) -> None:
    copy = demo_copy.reset(ADDRESSES)
    expected = {
        name: text.replace("127.0.0.1:19092", ADDRESSES["east"]).replace("127.0.0.1:29092", ADDRESSES["west"])
        for name, text in texts(elsewhere).items()
    }
    assert texts(copy) == expected != texts(elsewhere)


def test_each_edit_changes_one_line_which_the_diff_shows_and_reset_drops_it(elsewhere: Path) -> None:
    committed = texts(elsewhere)
    copy = demo_copy.reset(ADDRESSES)
    before = texts(copy)
    for diff, words in (
        (demo_copy.set_topic_config("flights", "retention.ms", "14d"), "retention.ms: 14d"),
        (demo_copy.add_pattern("east-to-west", "airports"), "airports"),
    ):
        old, new = changed(diff)
        assert words in new
        assert words not in old
    assert texts(copy) != before
    demo_copy.reset(ADDRESSES)
    assert texts(copy) == before
    assert texts(elsewhere) == committed


def test_the_copy_shares_the_run_folder_of_the_committed_environment(elsewhere: Path) -> None:
    copy = demo_copy.reset(ADDRESSES)
    assert state_folder(copy) == state_folder(elsewhere)


def test_a_broken_or_changed_environment_is_reported_in_words(elsewhere: Path) -> None:
    demo_copy.reset(ADDRESSES)
    with pytest.raises(SandboxError, match="no flights-of-yore under topics"):
        demo_copy.set_topic_config("flights-of-yore", "retention.ms", "14d")
    (elsewhere / "broken.yaml").write_text("topics: {flights: [", encoding="utf-8")
    with pytest.raises(SandboxError, match=r"broken\.yaml is not YAML"):
        demo_copy.reset(ADDRESSES)
