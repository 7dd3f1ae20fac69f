"""The commands about running reassignments: show, cancel. Their arguments and exit codes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli_help import ENDINGS
from reconciler.counts import counted
from reconciler.terminal import App, Env, Format, FormatOption, StealOption, require_agreement, say
from reconciler.terminal import show as tell

if TYPE_CHECKING:
    from reconciler.edges.kafka.admin import KafkaCluster

app = App(help="Reassignments of replicas that are under way.", no_args_is_help=True)


@app.command(epilog=ENDINGS["reassignments show"])
def show(env: Env, form: FormatOption = Format.TEXT) -> None:
    """Which partitions are on the way on each cluster, whose they are, and how much is left to copy."""
    from reconciler.errors import Unknown
    from reconciler.placing.looking import facts_of
    from reconciler.rendering.replicas import reassignments_json, under_way
    from reconciler.topology import Principal
    from reconciler.wiring import open_session

    with open_session(env, Principal.PLAN) as session:
        environment = session.topology.environment
        found = {name: facts_of(cluster, environment) for name, cluster in session.clusters.items()}
    lines = (line for name, facts in found.items() for line in under_way(name, facts))
    tell(reassignments_json(environment, found) if form is Format.JSON else "\n".join(lines))
    raise typer.Exit(int(any(isinstance(facts, Unknown) for facts in found.values())))


@app.command(epilog=ENDINGS["reassignments cancel"])
def cancel(
    env: Env, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False, steal: StealOption = ""
) -> None:
    """Take back what an apply of this environment has on the way, and clear its throttles. Never what others began."""
    from reconciler.enacting import changing
    from reconciler.errors import Unknown
    from reconciler.placing.looking import facts_of

    with changing(env, "reassignments cancel", steal) as execute:
        clusters, environment = execute.session.clusters, execute.session.topology.environment
        facts = {name: facts_of(cluster, environment) for name, cluster in clusters.items()}
        silent = {name: one for name, one in facts.items() if isinstance(one, Unknown)}
        begun = [name for name, one in facts.items() if not isinstance(one, Unknown) and one.journal is not None]
        for name, one in silent.items():
            say(f"{name}: unknown, so nothing is taken back there: {one.error}")
        if begun:
            _confirm(", ".join(begun), yes)
        else:
            tell("nothing of this environment is under way" + (" on the clusters that answered" if silent else ""))
        for name in begun:
            execute.by_hand(f"cancel-reassignment:{name}", partial(_cancel, clusters[name], environment))
    raise typer.Exit(int(bool(silent)))


def _cancel(cluster: KafkaCluster, environment: str) -> None:
    from reconciler.reassigning import cancel as take_back
    from reconciler.reassigning.window import Watch

    with cluster.replicas(environment) as replicas:
        count = take_back(environment, replicas, Watch(note=say, closed=str))
    tell(f"{cluster.name}: {counted(count, 'partition')} taken back, our throttles are cleared")


def _confirm(clusters: str, yes: bool) -> None:
    if yes:
        return
    question, why = f"Take back what is on the way on {clusters}?", "What was copied so far would be thrown away."
    require_agreement(question, "nothing was cancelled", why, "Pass --yes.")
