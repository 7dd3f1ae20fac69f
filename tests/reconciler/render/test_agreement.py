"""Nothing happens without consent: without a terminal there is none, and no means no."""

from __future__ import annotations

import io

import pytest
import typer

from reconciler.errors import ReconcilerError
from reconciler.render.console import agrees, require_agreement

WORDS = ("Apply 3 changes?", "nothing was applied", "Someone has to agree.", "Pass --yes.")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stdin", [io.StringIO("y\n"), None], ids=["a pipe", "closed"])
def test_without_a_terminal_no_one_is_asked(monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO | None) -> None:
    """``None``: what Python makes of ``<&-``."""
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(ReconcilerError) as refused:
        require_agreement(*WORDS)
    assert refused.value.what == "nothing was applied: cannot ask for confirmation: standard input is not a terminal"
    assert (refused.value.why, refused.value.todo) == WORDS[2:]


@pytest.mark.parametrize(("typed", "agreed"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False)])
def test_only_yes_is_yes(monkeypatch: pytest.MonkeyPatch, typed: str, agreed: bool) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert agrees(*WORDS) is agreed
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    if agreed:
        require_agreement(*WORDS)
    else:
        with pytest.raises(ReconcilerError, match="cancelled; nothing was applied"):
            require_agreement(*WORDS)


def test_who_leaves_has_not_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(""))
    with pytest.raises(typer.Abort):
        agrees(*WORDS)
