"""``python -m bench.access``: what plan and apply cost with a thousand access rules on a real authorizer.

One secure cluster holds the rules. Each command is a process of its own, measured as in ``bench.planning``.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.handles import ClusterHandle
from reconciler_sandbox.paths import ROOT
from rich.console import Console

from bench.planning import Case, Run, timed
from bench.report import machine

SAVED = ROOT / "bench" / "results" / "access"
APPS_TOPICS = 5
NAME = "bench"
"""An environment is known by its folder's name, and owns its rules under it."""
console = Console(soft_wrap=True)


def environment(folder: Path, cluster: ClusterHandle, rules: int, without: int = 0) -> str:
    """``rules`` rules of producers and consumers, ten an application; ``without``: that many applications fewer."""
    folder.mkdir(parents=True)
    client = {key: value for key, value in cluster.client("apply").items() if key != "bootstrap.servers"}
    client["sasl.password"] = "${env:BENCH_PASSWORD}"
    lines = ["clusters:", f"  {cluster.name}:", f"    bootstrap_servers: ['{cluster.bootstrap_servers}']"]
    lines += [f"    cluster_id: {cluster.cluster_id}", "    client:"]
    lines += [*(f"      {key}: {json.dumps(value)}" for key, value in client.items()), "access:"]
    for app in range(rules // (2 * APPS_TOPICS) - without):
        topics = ", ".join(f"app{app:04}.events-{number}" for number in range(APPS_TOPICS))
        who = f'principal: "User:app{app:04}", clusters: [{cluster.name}], topics: [{topics}]'
        lines += [f"  - {{role: producer, {who}}}", f"  - {{role: consumer, {who}, groups: []}}"]
    (folder / "access.yaml").write_text("\n".join(lines) + "\n", "utf-8")
    return str(folder)


def cases(folder: Path, cluster: ClusterHandle, rules: int) -> Iterator[Case]:
    """In this order: each leaves the cluster as the next one needs it."""
    all_of_them = environment(folder / "all" / NAME, cluster, rules)
    fewer = environment(folder / "fewer" / NAME, cluster, rules, without=1)
    none = environment(folder / "none" / NAME, cluster, 0)
    yield Case(f"plan, {rules:,} rules to make", ("plan", all_of_them), 2, "2 s")
    yield Case(f"apply, {rules:,} rules made and probed", ("apply", all_of_them, "--yes"), 0)
    yield Case(f"plan, {rules:,} rules, nothing to change", ("plan", all_of_them), 0, "2 s")
    yield Case("plan, 10 rules to delete", ("plan", fewer), 2, "2 s")
    yield Case(f"apply, {rules:,} rules deleted and probed", ("apply", none, "--yes", "--allow-shrink"), 0)


def table(runs: Sequence[tuple[Case, Run]]) -> str:
    rows = ["| command | wall, s | CPU, s | peak, MiB | aim |", "|---|---|---|---|---|"]
    for case, run in runs:
        rows.append(f"| {case.name} | {run.seconds:.1f} | {run.cpu_s:.1f} | {run.peak_mib:.0f} | {case.aim} |")
    return "\n".join(rows)


def main(
    rules: Annotated[int, typer.Option(help="Access rules on the cluster.")] = 1_000,
    save: Annotated[bool, typer.Option(help="Keep the figures under bench/results/access.")] = False,
) -> None:
    with running("secure") as sandbox, tempfile.TemporaryDirectory() as scratch:
        east = sandbox["east"]
        os.environ["BENCH_PASSWORD"] = east.passwords["apply"]
        runs = []
        for case in cases(Path(scratch) / "environments", east, rules):
            run = timed(case, Path(scratch) / "state")
            console.print(f"{case.name}: {run.seconds:.1f} s")
            runs.append((case, run))
    console.print(table(runs))
    console.print(f"machine: {machine()}")
    if save:
        SAVED.mkdir(parents=True, exist_ok=True)
        document = {"machine": machine(), "runs": [asdict(run) for _, run in runs]}
        (SAVED / "access.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    typer.run(main)
