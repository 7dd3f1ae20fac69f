"""The CLI commands that show and cancel running reassignments: arguments, exit codes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.help import CHANGED, ending
from reconciler.render.console import App, Env, FormatOption, OutputFormat, StealOption, require_agreement, say, say_now
from reconciler.render.console import show as tell
from reconciler.text import counted

if TYPE_CHECKING:
    from reconciler.backends.clusters.cluster import KafkaCluster

app = App(help="Reassignments of replicas that are under way.", no_args_is_help=True)


@app.command(epilog=ending("0 success; 1 error or unknown", "reassignments show environments/prod"))
def show(env: Env, form: FormatOption = OutputFormat.TEXT) -> None:
    """Which partitions are on the way on each cluster, whose they are, and how much is left to copy."""
    from reconciler.errors import Unknown
    from reconciler.model.environment.topology import Principal
    from reconciler.operations.session.session import open_session
    from reconciler.render.reports.reassignments import reassignments_json, under_way
    from reconciler.resources.replicas.observe import facts_of

    with open_session(env, Principal.PLAN) as session:
        environment = session.topology.environment
        facts = {name: facts_of(cluster, environment) for name, cluster in session.clusters.items()}
    lines = (line for name, each in facts.items() for line in under_way(name, each))
    tell(reassignments_json(environment, facts) if form is OutputFormat.JSON else "\n".join(lines), form)
    raise typer.Exit(int(any(isinstance(each, Unknown) for each in facts.values())))


@app.command(epilog=ending(CHANGED, "reassignments cancel environments/prod"))
def cancel(
    env: Env, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False, steal: StealOption = ""
) -> None:
    """Take back what an apply of this environment has on the way, and clear its throttles. Never what others began."""
    from reconciler.errors import Unknown
    from reconciler.operations.apply.run import changing
    from reconciler.resources.replicas.observe import facts_of

    with changing(env, "reassignments cancel", steal) as execute:
        clusters, environment = execute.session.clusters, execute.session.topology.environment
        facts = {name: facts_of(cluster, environment) for name, cluster in clusters.items()}
        silent = {name: each for name, each in facts.items() if isinstance(each, Unknown)}
        begun = [name for name, each in facts.items() if not isinstance(each, Unknown) and each.journal is not None]
        for name, unknown in silent.items():
            say(f"{name}: unknown, so nothing is cancelled there: {unknown.error}")
        if begun:
            _confirm(", ".join(begun), yes)
        else:
            tell("nothing of this environment is under way" + (" on the clusters that answered" if silent else ""))
        for name in begun:
            execute.perform(f"cancel-reassignment:{name}", partial(_cancel, clusters[name], environment))
    raise typer.Exit(int(bool(silent)))


def _cancel(cluster: KafkaCluster, environment: str) -> None:
    from reconciler.resources.replicas.reassign.in_flight import ReassignmentWatch
    from reconciler.resources.replicas.reassign.run import cancel as take_back

    with cluster.replicas(environment) as replicas:
        count = take_back(environment, replicas, ReassignmentWatch(note=say, closed=str, progress=say_now))
    tell(f"{cluster.name}: {counted(count, 'partition')} cancelled, our throttles are cleared")


def _confirm(clusters: str, yes: bool) -> None:
    if yes:
        return
    question, why = f"Cancel the running reassignments on {clusters}?", "What was copied so far would be thrown away."
    require_agreement(question, "nothing was cancelled", why, "Pass --yes.")
