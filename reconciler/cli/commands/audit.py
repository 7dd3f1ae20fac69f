"""The CLI commands about the audit record: arguments, exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.help import ending
from reconciler.render.console import App, Env, FormatOption, OutputFormat, style
from reconciler.render.console import show as tell

app = App(help="The record of who changed what.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """The record of who changed what."""


@app.command(
    epilog=ending(
        "0 whole; 1 error or unknown; 2 broken",
        "audit verify environments/prod",
        "audit verify environments/prod --head sha256:0b1f...",
    )
)
def verify(
    env: Env,
    form: FormatOption = OutputFormat.TEXT,
    head: Annotated[
        str, typer.Option("--head", metavar="DIGEST", help="the head that an earlier run printed; it must be there")
    ] = "",
) -> None:
    """Check that no audit record was changed or taken out: each carries the digest of the one before it."""
    from reconciler.operations.clusters.verify_audit import verify_audit
    from reconciler.render.reports.audit import audit_json, audit_text

    verification = verify_audit(env, head)
    text = audit_json(verification) if form is OutputFormat.JSON else audit_text(verification, style())
    tell(text, form)
    raise typer.Exit(verification.exit_code)
