"""The demo on data that an older release has left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reconciler_sandbox import commands
from reconciler_sandbox.demo import copy_environment
from reconciler_sandbox.demo import main as demo
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.profiles import PROFILES, cluster_id_of, layout


def test_data_of_an_older_release_is_kept_and_the_way_on_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`environments/sandbox` declares other ids than the clusters have, so no command would change them."""
    ids = {"east": "sandbox-CSlMmhUxTlOBhQ", "west": cluster_id_of("plain", "west")}
    brokers = layout(PROFILES["plain"])
    handles = {name: ClusterHandle(name, tmp_path / "plain", ids[name], brokers[name]) for name in ids}
    kept = tmp_path / "plain" / "sandbox.json"
    kept.parent.mkdir()
    kept.touch()

    def up(**_: Any) -> commands.Up:
        return commands.Up(Sandbox("plain", tmp_path / "plain", handles), already=True)

    monkeypatch.setattr(commands, "up", up)
    monkeypatch.setattr(copy_environment, "COPY", tmp_path / "copy")
    assert demo.main() == 1
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("made by an older release") == 1
    assert "east is sandbox-CSlMmhUxTlOBhQ, not sandbox-plain-east-AAA" in told
    assert "west is" not in told, "that one is as declared"
    assert "`make down`" in told
    assert "`reconciler sandbox down --profile plain --clear` removes the data" in told
    assert kept.exists()
    assert not (tmp_path / "copy").exists()
