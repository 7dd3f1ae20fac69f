"""The unit of a mirror host, by systemd itself. `make test-deploy` runs this: a container has no systemd."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.paths import ROOT

UNIT = ROOT / "docs/mirror/deploy/systemd/mirror-host.service"


def said_of(unit: Path) -> subprocess.CompletedProcess[str]:
    assert shutil.which("systemd-analyze"), "systemd-analyze is not installed: apt-get install systemd"
    return subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With a program that is there; ours is below /opt on the machine of a host."""
    text = UNIT.read_text().replace("/opt/reconciler/bin/reconciler", "/bin/true")
    unit = tmp_path / UNIT.name
    unit.write_text(text)
    said = said_of(unit)
    assert (said.returncode, said.stderr) == (0, "")
    unit.write_text(text.replace("KillMode=", "KillModus="))
    assert "KillModus" in said_of(unit).stderr, "a slip is seen"
