"""Where the program starts. ``plan`` is what people wait for most, and needs less than all commands together import."""

from __future__ import annotations

import sys

from reconciler.terminal import run_app


def main() -> None:
    if sys.argv[1:2] in (["plan"], ["explain"]):
        from reconciler.cli_review import app
    else:
        from reconciler.cli import app
    run_app(app)
