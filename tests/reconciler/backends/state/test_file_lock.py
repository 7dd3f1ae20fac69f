"""The lock of one machine: who holds it, and how it is got back from a holder that hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.runner.run_folder import state_folder
from reconciler.backends.state.lock import environment_lock
from reconciler.errors import LockHeld, ReconcilerError


def test_the_second_learns_who_holds_it_and_how_to_end_that(tmp_path: Path) -> None:
    with environment_lock(tmp_path / "prod", "apply"):
        with pytest.raises(LockHeld) as caught, environment_lock(tmp_path / "prod", "run"):
            pytest.fail("two held it")
        told = str(caught.value)
        assert f"environment prod is locked by process {os.getpid()} of this machine (apply)" in told
        assert f"kill {os.getpid()}" in told
        assert "--steal-lock takes the lock from other machines only" in told
    with environment_lock(tmp_path / "prod", "run"):
        with pytest.raises(LockHeld) as caught, environment_lock(tmp_path / "prod", "drill"):
            pytest.fail("two held it")
        assert "A run continues until it is stopped: stop it for as long as this takes" in str(caught.value)


def test_a_folder_that_cannot_be_made_stops_only_who_writes_there(tmp_path: Path) -> None:
    """A checkout that is mounted read-only: plan works there, apply says where the folder can be put."""
    (tmp_path / ".reconciler").write_text("in the way")
    state = state_folder(tmp_path / "prod")
    with pytest.raises(ReconcilerError, match="RECONCILER_STATE"), environment_lock(state, "apply"):
        pytest.fail("held without a file")
    (tmp_path / "own" / "lock").mkdir(parents=True)
    with pytest.raises(ReconcilerError, match="cannot be opened"), environment_lock(tmp_path / "own", "apply"):
        pytest.fail("held without a file")
