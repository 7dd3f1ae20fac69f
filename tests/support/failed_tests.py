"""Prints the tests that failed in the shares of a run, a line each: ``python -m tests.support.failed_tests CACHES``.

Ends with 1 where more failed than a busy machine explains, or where none is known by name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

MOST = 3


def failed_tests(caches: Path) -> list[str]:
    """Node ids, from what pytest's cache plugin left in each folder below ``caches``."""
    return [test for kept in sorted(caches.glob("*/v/cache/lastfailed")) for test in json.loads(kept.read_text())]


if __name__ == "__main__":
    failed = failed_tests(Path(sys.argv[1]))
    sys.stdout.write("\n".join([*failed, ""]))
    if not 0 < len(failed) <= MOST:
        sys.exit(f"{len(failed)} tests failed; up to {MOST} would be tried again, alone")
