"""The CLI as a user meets it: an environment folder on disk, words on both outputs, an exit code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.cli import main
from sandbox.handles import Sandbox

Write = Callable[..., Path]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Everything a user sees; a traceback is never among it."""
        both = self.out + self.err
        assert "Traceback" not in both, both
        return both


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def run(*words: object) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """``write(text, name="e")`` -> an environment folder with one file."""

    def make(text: str, name: str = "e") -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "topology.yaml").write_text(text, encoding="utf-8")
        return folder

    return make


def two_clusters(sandbox: Sandbox, **extra: str) -> str:
    """The ``clusters:`` section for a plain sandbox; ``east=`` and ``west=`` add fields."""
    lines = ["clusters:"]
    for name, handle in sandbox.clusters.items():
        lines.append(f"  {name}: {{bootstrap_servers: [{handle.bootstrap_servers}]{extra.get(name, '')}}}")
    return "\n".join(lines) + "\n"
