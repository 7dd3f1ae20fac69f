"""The commands that review and change nothing: their arguments and exit codes.

Most of the program is imported by the commands themselves: clusters are read meanwhile, and `validate` needs
little of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli_help import ENDINGS
from reconciler.edges.files import environment_name, read_readable, write_text
from reconciler.errors import ReconcilerError, TopologyError
from reconciler.rendering.style import Format as Page
from reconciler.terminal import App, Env, Format, FormatOption, OutOption, PageOption, PruneOption, say, show, style

if TYPE_CHECKING:
    from reconciler.beginning import Begun

Envs = Annotated[list[Path], typer.Argument(metavar="ENV", help="environment folders")]
WriteOption = Annotated[
    list[Path] | None, typer.Option("--write", metavar="FILE", help="also as FILE ends: .md .html .json .txt")
]
BaseOption = Annotated[str | None, typer.Option("--base", metavar="REF", help="tell what the edit since REF means")]
SinceOption = Annotated[
    str | None, typer.Option("--changed-since", metavar="REF", help="skip environments untouched since REF")
]


def validate(env: Env, form: FormatOption = Format.TEXT) -> None:
    """Check the YAML offline: schema, rules across files, mirror loops. Every problem at once, with its line."""
    from reconciler.loading import load
    from reconciler.rendering.validation import problems_json, valid_json, valid_text

    name = environment_name(env)
    try:
        texts, unread = read_readable(env)
        topology = load(texts, name, unread=unread)
    except TopologyError as error:
        if form is Format.JSON:
            show(problems_json(name, error.problems))
        raise
    show(valid_json(topology) if form is Format.JSON else valid_text(str(env), topology))


def plan(
    context: typer.Context,
    envs: Envs,
    form: PageOption = Page.TEXT,
    out: OutOption = None,
    write: WriteOption = None,
    base: BaseOption = None,
    revert: Annotated[bool, typer.Option("--revert", help="plan going back to --base")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="with --base: the edit alone, without clusters")] = False,
    changed_since: SinceOption = None,
    prune: PruneOption = False,
    artifact: Annotated[str, typer.Option("--artifact", metavar="TEXT", help="where a cut comment sends readers")] = "",
) -> None:
    """Compare git with the live clusters and print what apply would do. --out saves the plan for apply --plan."""
    _refuse_mixed(envs, form, (out, *(write or ())))
    live = base is None and changed_since is None and not (revert or offline)
    with _begun(context.obj, envs[0]) if live and len(envs) == 1 else nullcontext() as begun:
        from reconciler import planfile, reviewing
        from reconciler.rendering.review import format_of, render

        wish = reviewing.Wish(base, revert, offline, prune)
        forms = {path: format_of(path.suffix) for path in write or ()}
        codes = []
        for env in envs:
            if changed_since is not None and (sentence := reviewing.untouched(env, changed_since)):
                (show if form is Page.TEXT else say)(sentence)
                continue
            found = reviewing.review(env, wish, begun)
            handoff = reviewing.handoff(env, out, wish, artifact)
            if out is not None and found.plan is not None:
                write_text(out, planfile.dumps(found.plan))
            for path, other in forms.items():
                write_text(path, render(found, other, handoff))
            show(render(found, form, handoff, style()))
            if out is not None and found.plan is not None:
                say(f"saved to {out}; {reviewing.goes_on(found.plan, handoff)}")
            codes.append(found.exit_code)
    raise typer.Exit(reviewing.worst(codes))


def _begun(early: Begun | None, env: Path) -> closing[Begun]:
    """``early``: what ``start`` has begun."""
    from reconciler import beginning

    return closing(beginning.taken(early, env))


def explain(
    env: Env,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="cluster/topic, topic:config, a flow or a mirror")],
    form: FormatOption = Format.TEXT,
    offline: Annotated[bool, typer.Option("--offline", help="from git alone")] = False,
) -> None:
    """Where each value comes from, which flows carry a topic and why, and its name on each cluster."""
    from reconciler import reviewing
    from reconciler.rendering.explanation import explanation_json, explanation_text

    found = reviewing.explained(env, subject, offline)
    show(explanation_json(found) if form is Format.JSON else explanation_text(found, style()))
    raise typer.Exit(found.exit_code)


def _refuse_mixed(envs: Sequence[Path], form: Page, files: Sequence[Path | None]) -> None:
    """Several environments are told one after the other, which only text can be."""
    if len(envs) > 1 and (form is not Page.TEXT or any(files)):
        raise ReconcilerError(
            f"{len(envs)} environments are given with --format {form}, --out or --write",
            "Each of them has a plan of its own, and they would be written over one another.",
            "Call plan once for each environment.",
        )


app = App(name="reconciler", add_completion=False, pretty_exceptions_enable=False)
"""These commands alone, for ``start``."""
app.command(epilog=ENDINGS["validate"])(validate)
app.command(epilog=ENDINGS["plan"])(plan)
app.command(epilog=ENDINGS["explain"])(explain)
