"""What a command that waits for its job refuses before the job starts, and what it shows of an ended one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.cli.main import main
from reconciler.errors import ReconcilerError
from reconciler.operations.mirror import foreground
from reconciler.operations.mirror.foreground import require_master
from reconciler.operations.session import session
from tests.support.builders import flow, topology
from tests.support.documents.reports import VERIFICATION


@pytest.mark.parametrize("master", ["local[2]", "spark://a:7077,b:7077", "k8s://https://h:6443", "yarn"])
def test_another_master_may_compare(master: str) -> None:
    require_master(master)


@pytest.mark.parametrize(
    "master", ["spark://u:c4nary@h:7077", "k8s://https://u:c4nary@h:6443", "u:c4nary@h", "local[none", "spark://h"]
)
def test_a_master_is_an_address_without_a_login(master: str) -> None:
    with pytest.raises(ReconcilerError, match="--master: ") as refused:
        require_master(master)
    assert "c4nary" not in str(refused.value)


def test_what_a_verification_found_is_shown_also_where_its_report_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It may have compared for hours."""
    (tmp_path / "taken").write_text("a file, where a folder is wanted")
    declared = SimpleNamespace(topology=topology(flow("east", "west", "orders")))
    monkeypatch.setattr(session, "open_session", lambda *_: nullcontext(declared))
    monkeypatch.setattr(foreground, "prove", lambda *_: VERIFICATION)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(tmp_path), "--out", str(tmp_path / "taken" / "report.json")])
    told = capsys.readouterr()
    assert (ended.value.code, "report.json cannot be written" in told.err) == (1, True)
    assert "orders" in told.out
