"""Our mirror as its user runs it: an environment folder, ``reconciler apply --yes``, ``reconciler mirror stop``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.copy.figures import Run
from bench.processes.cpu import MARK_VARIABLE, PASSED_ON, marked
from bench.records.equality import ADDED_HEADER

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What the environment file says of the mirror. ``lanes`` and ``parallelism`` default to one for each core."""

    delivery: str = "exactly_once"
    master: str = "local[2]"
    parallelism: int = 2
    lanes: int = 2
    work: str = ""
    offsets: str = "translated"


WORK: Mapping[str, Mapping[str, object]] = {
    "": {},
    "where": {"where": {"key": {"exists": True}}},
    "headers": {"headers": {"add": {ADDED_HEADER: "{source_cluster}/{topic}-{partition}"}}},
}
"""Record work by its name: fields of the flow. Of ``where`` all records pass, so that the copy can be proved equal."""


def environment(run: Run, shape: Shape) -> dict[str, object]:
    """The topology of a run; JSON is YAML."""
    return {
        "clusters": {
            run.alias: {"bootstrap_servers": [run.source]},
            run.target_alias: {"bootstrap_servers": [run.target]},
        },
        "flows": {
            run.alias: {
                "source": run.alias,
                "target": run.target_alias,
                "topics": list(run.topics),
                "replication_factor": 1,
                "delivery": shape.delivery,
                "lanes": shape.lanes,
                **({} if shape.offsets == "translated" else {"offsets": shape.offsets}),
                **WORK[shape.work],
            }
        },
        "mirrors": {
            run.target_alias: {"master": shape.master, "parallelism": shape.parallelism},
        },
    }


def python_of(checkout: Path) -> str:
    """The interpreter that runs a checkout's program: ours is the one that runs this."""
    return sys.executable if checkout == ROOT else str(checkout / ".venv" / "bin" / "python")


class Reconciler:
    """A ``System``: the CLI, its supervisor, spark-submit's JVM, the Python driver and the Python workers.

    ``checkout``: whose program runs; another one must have been installed by its own ``make install``.
    """

    def __init__(self, shape: Shape = Shape(), checkout: Path = ROOT) -> None:
        self.shape, self.checkout = shape, checkout
        self._apply: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        work = f", {self.shape.work}" if self.shape.work else ""
        lanes = ", one lane" if self.shape.lanes == 1 else ""
        lanes += ", same offsets" if self.shape.offsets == "same" else ""
        checkout = f", {self.checkout}" if self.checkout != ROOT else ""
        return f"reconciler, {self.shape.delivery.replace('_', ' ')}{work}{lanes}{checkout}"

    @property
    def exactly_once(self) -> bool:
        return self.shape.delivery == "exactly_once"

    def _program(self) -> list[str]:
        return [python_of(self.checkout), "-m", "reconciler"]

    def start(self, run: Run) -> None:
        folder = run.folder / run.alias
        folder.mkdir()
        (folder / "topology.yaml").write_text(json.dumps(environment(run, self.shape), indent=2))
        with (run.folder / "apply.log").open("wb") as log:
            self._apply = subprocess.Popen(
                # The clusters are full of what earlier runs loaded, and those that whoever measures has named.
                [*self._program(), "apply", str(folder), "--yes", "--first-contact"],
                cwd=self.checkout,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **PASSED_ON, MARK_VARIABLE: run.mark},
            )

    def alive(self, run: Run) -> str | None:
        code = self._apply.poll() if self._apply is not None else 1
        if code is None or (code == 0 and marked(run.mark)):
            return None
        logs = [run.folder / "apply.log", *run.folder.glob(".reconciler/**/job.log")]
        tails = ["\n".join(log.read_text(errors="replace").splitlines()[-12:]) for log in logs if log.exists()]
        return "\n".join([f"reconciler apply ended with {code}", *tails])

    def stop(self, run: Run) -> None:
        if self._apply is None:
            return
        if self._apply.poll() is None:
            self._apply.terminate()
            self._apply.wait()
        command = [*self._program(), "mirror", "stop", str(run.folder / run.alias)]
        with (run.folder / "stop.log").open("wb") as log:
            try:
                subprocess.run(
                    command, cwd=self.checkout, stdout=log, stderr=subprocess.STDOUT, timeout=STOP_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                log.write(f"\nnot stopped in {STOP_SECONDS:.0f} s; killed\n".encode())
