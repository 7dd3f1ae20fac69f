"""``python -m reconciler_sandbox jars``: fetches Kafka's jars for the Makefile, before anything else can run."""

from __future__ import annotations

import argparse
import sys

from reconciler.errors import ReconcilerError
from reconciler_sandbox.brokers import up_down
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.install import jars
from reconciler_sandbox.releases import NEWEST, RELEASES


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m reconciler_sandbox", description="Kafka's jars on this machine")
    parser.add_argument("action", choices=["jars"], help="fetch and check Kafka's jars")
    parser.add_argument("--lock", action="store_true", help="renew the digests of all releases from what Maven serves")
    parser.add_argument("--kafka", choices=RELEASES, default=NEWEST.version, help="the release to fetch")
    arguments = parser.parse_args()
    try:
        if arguments.lock:
            for release in RELEASES.values():
                jars.write_checksums(release)
        folder = jars.ensure(_tell, RELEASES[arguments.kafka])
        try:
            up_down.archive_classes(_tell)
        except SandboxError as error:  # brokers start without it, too
            _tell(str(error))
        sys.stdout.write(f"Kafka's jars are in {folder}\n")
    except ReconcilerError as error:
        _tell(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
