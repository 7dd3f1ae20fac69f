"""Asks OSV whether advisories are known about the locked packages: ``python -m requirements.advisories``.

Exit code 1 with a list when there are any. What could not be asked, or was not answered as the API's description says,
is NOT CHECKED: a warning and exit code 0, so that no build depends on a service of others. Standard library only."""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from requirements.locked import Package, packages

OSV = "https://api.osv.dev/v1/querybatch"
PAGE = "https://osv.dev/vulnerability/"
BATCH = 500
"""Packages in one request; OSV takes 1000."""
TIMEOUT = 30
LARGEST_ANSWER = 8 * 1024 * 1024
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{2,80}", re.ASCII)
"""Of an advisory. What it does not match is not shown: a log of CI obeys some lines."""

TODO = (
    "Lock a version that is not affected: make lock takes the newest that pyproject.toml allows, after its lines in"
    " requirements/*.lock are deleted; then make licences and make test."
)

Ask = Callable[[bytes], bytes]
"""Sends a request's body and gives the answer's. Raises OSError or HTTPException."""


class UnknownError(Exception):
    """Why it is not known whether there are advisories."""


def over_https(body: bytes) -> bytes:
    request = urllib.request.Request(OSV, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        content: bytes = answer.read(LARGEST_ANSWER + 1)
    return content


def advisories(locked: Sequence[Package], ask: Ask) -> tuple[dict[Package, tuple[str, ...]], dict[Package, str]]:
    """Packages with the ids of their advisories, and packages of which these, or further ones, are not known, with the
    reason. Those in neither have none."""
    hits: dict[Package, tuple[str, ...]] = {}
    unknown: dict[Package, str] = {}
    for first in range(0, len(locked), BATCH):
        batch = locked[first : first + BATCH]
        try:
            answers = _results(ask(_body(batch)), len(batch))
        except (OSError, http.client.HTTPException) as error:
            unknown |= dict.fromkeys(batch, f"OSV could not be asked: {error!r}")
        except UnknownError as error:
            unknown |= dict.fromkeys(batch, str(error))
        else:
            for package, answer in zip(batch, answers, strict=True):
                ids, why = _ids(answer)
                if ids:
                    hits[package] = ids
                if why:
                    unknown[package] = why
    return hits, unknown


def _body(batch: Sequence[Package]) -> bytes:
    return json.dumps({"queries": [{"package": {"purl": package.purl}} for package in batch]}).encode()


def _results(answer: bytes, expected: int) -> list[Any]:
    if len(answer) > LARGEST_ANSWER:
        raise UnknownError(f"OSV's answer has more than {LARGEST_ANSWER} bytes")
    try:
        results = json.loads(answer)["results"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnknownError("OSV's answer is not JSON with results") from None
    if not isinstance(results, list) or len(results) != expected:
        count = len(results) if isinstance(results, list) else "no list of"
        raise UnknownError(f"OSV's answer has {count} results, expected {expected}")
    return results


def _ids(answer: Any) -> tuple[tuple[str, ...], str | None]:
    """Ids of one package, and why these may not be all. An empty object means none, as OSV's API says."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("vulns", []), list):
        return (), "OSV's answer about it is not what its API describes"
    entries = answer.get("vulns", [])
    named = [entry.get("id") if isinstance(entry, Mapping) else None for entry in entries]
    ids = tuple(sorted({name for name in named if isinstance(name, str) and _ID.fullmatch(name)}))
    if any(name not in ids for name in named):
        return ids, "OSV's answer about it names an advisory without an id"
    if answer.get("next_page_token"):
        return ids, "OSV's answer about it has more pages than the first"
    if not ids and set(answer) - {"vulns"}:
        return ids, "OSV's answer about it is not what its API describes"
    return ids, None


def report(hits: Mapping[Package, Sequence[str]], unknown: Mapping[Package, str], in_actions: bool) -> list[str]:
    """Lines for the log. ``in_actions``: with GitHub's annotations, which stand above the log."""
    lines = []
    for package, ids in hits.items():
        use = "the program" if package.runtime else "development and sandbox only"
        pages = ", ".join(f"{PAGE}{name}" for name in ids)
        lines.append(f"{package.name} {package.version} ({use}): {', '.join(ids)}. {TODO} Read {pages}")
    if in_actions:
        lines = [f"::error title=Advisory::{_escaped(line)}" for line in lines]
    if unknown:
        reasons = "; ".join(sorted(set(unknown.values())))
        names = ", ".join(package.name for package in unknown)
        what = (
            f"{len(unknown)} locked packages were NOT CHECKED for advisories: {reasons}."
            f" Whether there are any is unknown. Run it again where OSV is reached: python -m requirements.advisories."
            f" Packages: {names}"
        )
        lines.append(f"::warning title=Advisories NOT CHECKED::{_escaped(what)}" if in_actions else f"WARNING: {what}")
    return lines


def _escaped(text: str) -> str:
    """As the data of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def main(ask: Ask = over_https, locked: Sequence[Package] | None = None) -> int:
    asked = packages() if locked is None else locked
    hits, unknown = advisories(asked, ask)
    for line in report(hits, unknown, os.environ.get("GITHUB_ACTIONS") == "true"):
        print(line)
    print(f"{len(asked)} locked packages: {len(hits)} with advisories, {len(unknown)} not checked")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
