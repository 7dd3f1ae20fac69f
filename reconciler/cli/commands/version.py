"""The CLI command version."""

from __future__ import annotations

from reconciler.cli.help import ending
from reconciler.errors import Unknown
from reconciler.render.console import App, show

app = App()


@app.command("version", epilog=ending("0", "version"))
def version() -> None:
    """Show the releases of this program and of what it runs on, for a bug report."""
    from reconciler.backends.versions import versions

    releases = versions()
    width = max(map(len, releases))
    for name, value in releases.items():
        if isinstance(value, Unknown):
            show(f"{name:<{width}}  unknown: {value.error}. {value.todo}".rstrip())
        else:
            show(f"{name:<{width}}  {value}")
