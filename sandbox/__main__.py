"""``python -m sandbox``: the same commands without the reconciler, as the Makefile needs them."""

from __future__ import annotations

import argparse
import sys

from reconciler.errors import ReconcilerError
from sandbox import commands, jars
from sandbox.profiles import PROFILES


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description="Kafka clusters on this machine")
    actions = parser.add_subparsers(dest="action", required=True)
    up = actions.add_parser("up", help="start the clusters of a profile")
    up.add_argument("--profile", choices=PROFILES, default="plain")
    up.add_argument("--port", type=int, help="base of all ports (also SANDBOX_PORT)")
    up.add_argument("--heap", help="of each broker, as Java writes it: 1g")
    down = actions.add_parser("down", help="stop the clusters")
    down.add_argument("--profile", choices=PROFILES)
    down.add_argument("--clear", action="store_true", help="remove their data too")
    status = actions.add_parser("status", help="what runs")
    status.add_argument("--profile", choices=PROFILES)
    env = actions.add_parser("env", help="secrets of a profile as shell exports")
    env.add_argument("--profile", choices=PROFILES, default="secure")
    fetch = actions.add_parser("jars", help="fetch and check Kafka's jars")
    fetch.add_argument("--lock", action="store_true", help="renew sandbox/jars.sha256 from what Maven serves")
    return parser


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")


def _run(arguments: argparse.Namespace) -> str:
    match arguments.action:
        case "up":
            return commands.render_up(commands.up(arguments.profile, arguments.port, arguments.heap, _tell))
        case "down":
            return commands.render_down(commands.down(arguments.profile, arguments.clear))
        case "status":
            return commands.render_status(commands.status(arguments.profile))
        case "env":
            return commands.render_environment(commands.environment(arguments.profile))
        case _:
            if arguments.lock:
                jars.write_checksums()
            return f"Kafka's jars are in {jars.ensure(_tell)}"


def main() -> int:
    try:
        sys.stdout.write(_run(_parser().parse_args()) + "\n")
    except ReconcilerError as error:
        _tell(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
