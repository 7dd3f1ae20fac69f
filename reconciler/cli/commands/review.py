"""The CLI commands that only review (validate, plan, explain, compare): arguments, options, exit codes.

Most of the program is imported by the commands themselves: clusters are read meanwhile, and `validate` needs
little of it.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.backends.files import environment_name, read_readable, write_text
from reconciler.cli.help import ending
from reconciler.errors import ExitCode, ReconcilerError, TopologyError
from reconciler.render import completion, console
from reconciler.render.markup import Format as Page

if TYPE_CHECKING:
    from reconciler.operations.session.early_reads import Begun

app = console.App(name="reconciler", add_completion=False, pretty_exceptions_enable=False)
"""These commands alone, for ``start``."""

Envs = Annotated[
    list[Path], typer.Argument(metavar="ENV", help="environment folders", autocompletion=completion.environments)
]
WriteOption = Annotated[
    list[Path] | None,
    typer.Option("--write", metavar="FILE", help="also write it, in the format of its suffix: .md .html .json .txt"),
]
BaseOption = Annotated[str | None, typer.Option("--base", metavar="REF", help="explain what the edit since REF means")]
SinceOption = Annotated[
    str | None, typer.Option("--changed-since", metavar="REF", help="skip environments untouched since REF")
]


@app.command(
    epilog=ending(
        "0 valid; 1 problems, or an error; 3 with --live: clusters refuse what is declared",
        "validate environments/prod",
        "validate environments/prod --live",
        "validate environments/prod --format json",
    )
)
def validate(
    env: console.Env,
    form: console.FormatOption = console.OutputFormat.TEXT,
    live: Annotated[bool, typer.Option("--live", help="also what blocks a plan on the live clusters")] = False,
) -> None:
    """Check the YAML offline: schema, rules across files, mirror loops. Every problem at once, with its line."""
    from reconciler.backends.connections.login_files import login_file_problems
    from reconciler.engine.doctor.machines import shared_metrics_ports
    from reconciler.environment.load import load
    from reconciler.render.reports.declared import problems_json, valid_json, valid_text

    name = environment_name(env)
    try:
        texts, unread = read_readable(env)
        topology = load(texts, name, unread=unread)
    except TopologyError as error:
        if form is console.OutputFormat.JSON:
            console.show(problems_json(name, error.problems), form)
        raise
    ports = (f"mirror {name}: {'. '.join(words)}" for name, words in shared_metrics_ports(topology).items())
    if notes := (*login_file_problems(topology), *ports):
        console.say(*notes)
    planned = None
    if live:
        from reconciler.operations.review.plan import PlanRequest, review

        planned = review(env, PlanRequest()).plan
    place = str(env)
    console.show(
        valid_json(place, topology, planned)
        if form is console.OutputFormat.JSON
        else valid_text(place, topology, planned),
        form,
    )
    if planned is not None:
        raise typer.Exit(planned.exit_code if planned.unknown or planned.refused else 0)


@app.command(
    epilog=ending(
        "0 nothing to do; 1 error or unknown; 2 changes; 3 blocked by a guard",
        "plan environments/prod --out plan.json",
        "plan environments/prod --base main --offline",
    )
)
def plan(
    envs: Envs,
    form: console.PageOption = Page.TEXT,
    out: console.OutOption = None,
    write: WriteOption = None,
    base: BaseOption = None,
    revert: Annotated[bool, typer.Option("--revert", help="plan a return to --base")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="with --base: the edit alone, without clusters")] = False,
    changed_since: SinceOption = None,
    prune: console.PruneOption = False,
    allow_new_address: Annotated[
        bool, typer.Option("--allow-new-address", help="log in even where the edit changes a connection")
    ] = False,
    artifact: Annotated[
        str, typer.Option("--artifact", metavar="TEXT", help="where a shortened comment sends readers")
    ] = "",
) -> None:
    """Compare git with the live clusters and print what apply would do. --out saves the plan for apply --plan."""
    given = {f"--format {form}": form is not Page.TEXT, "--out": out is not None, "--write": bool(write)}
    if len(envs) > 1 and any(given.values()):
        why = "Each of them has its own plan, and each would overwrite the one before."
        todo = "Call plan once for each environment."
        options = ", ".join(option for option, is_given in given.items() if is_given)
        raise ReconcilerError(f"{len(envs)} environments are given with {options}", why, todo)

    # Clusters are read while the rest of the program is imported.
    begun: Begun | None = None
    live = base is None and changed_since is None and not (revert or offline)
    if live and len(envs) == 1:
        from reconciler.model.environment.topology import Principal
        from reconciler.operations.session import early_reads

        begun = early_reads.begin(envs[0], Principal.PLAN)
    with nullcontext() if begun is None else closing(begun):
        from reconciler.engine.plan import file as planfile
        from reconciler.operations.review import plan as reviewing
        from reconciler.render.plan.formats import format_of, render

        # Endings are checked before any cluster is asked: a typo in --write must not cost a whole plan.
        request = reviewing.PlanRequest(base, revert, offline, prune, allow_new_address)
        forms = {path: format_of(path.suffix) for path in write or ()}

        def planned(env: Path) -> int:
            console.now_of(env)
            if changed_since is not None and (sentence := reviewing.untouched(env, changed_since)):
                (console.show if form is Page.TEXT else console.say)(sentence)
                return ExitCode.DONE
            review = reviewing.review(env, request, begun)
            handoff = reviewing.handoff(env, out, request, artifact)
            if out is not None and review.plan is not None:
                write_text(out, planfile.dumps(review.plan))
            for path, other in forms.items():
                write_text(path, console.filled_in(render(review, other, handoff), path.suffix))
            console.show(render(review, form, handoff, console.style()), form)
            if out is not None and review.plan is not None:
                console.say(f"saved to {out}; {reviewing.goes_on(review.plan, handoff)}")
            return review.exit_code

        if len(envs) == 1:
            raise typer.Exit(planned(envs[0]))
        # One environment that cannot be planned hides none of the others; the worst exit code is returned.
        codes = []
        for env in envs:
            try:
                codes.append(planned(env))
            except ReconcilerError as error:
                console.say(f"{env} is not planned:")
                codes.append(console.say_error(error))
    raise typer.Exit(reviewing.worst(codes))


@app.command(
    epilog=ending(
        "0 success; 1 error or unknown",
        "explain environments/prod orders",
        "explain environments/prod east/orders:retention.ms --offline",
    )
)
def explain(
    env: console.Env,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="cluster/topic, topic:config, a flow or a mirror",
            autocompletion=completion.subjects,
        ),
    ],
    form: console.FormatOption = console.OutputFormat.TEXT,
    offline: Annotated[bool, typer.Option("--offline", help="from git alone")] = False,
) -> None:
    """Show where each value comes from, which flows carry a topic and why, and its name on each cluster."""
    from reconciler.operations.review import plan as reviewing
    from reconciler.render.reports.declared import explanation_json, explanation_text

    explanation = reviewing.explained(env, subject, offline)
    text = (
        explanation_json(explanation)
        if form is console.OutputFormat.JSON
        else explanation_text(explanation, console.style())
    )
    console.show(text, form)
    raise typer.Exit(explanation.exit_code)


@app.command(
    epilog=ending(
        "0 they declare the same; 1 error; 2 they differ",
        "compare environments/staging environments/prod",
        "compare environments/staging environments/prod --map stg-east=east --map User:stg-app=User:app",
    )
)
def compare(
    env_a: Annotated[
        Path, typer.Argument(metavar="ENV_A", help="such as staging", autocompletion=completion.environments)
    ],
    env_b: Annotated[
        Path, typer.Argument(metavar="ENV_B", help="such as production", autocompletion=completion.environments)
    ],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="A=B", help="a cluster, flow, mirror or principal of ENV_A, and its name in ENV_B"
        ),
    ] = None,
    form: console.PageOption = Page.TEXT,
    out: console.OutOption = None,
) -> None:
    """Show what ENV_B would have to declare to match ENV_A: topics, flows, access, settings. Asks no cluster."""
    from reconciler.operations.review.plan import compare_folders
    from reconciler.render.reports.promotion import promotion_in

    report = compare_folders(env_a, env_b, names or ())
    text = promotion_in(report, form, console.style())
    if out is not None:
        write_text(out, console.filled_in(text, form))
    console.show(text, form)
    raise typer.Exit(int(report.exit_code))
