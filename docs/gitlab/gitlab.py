"""What the pipelines say to GitLab: one note in a merge request, one issue, and the plan that was reviewed.

Standard library only. GITLAB_TOKEN: a project access token with the scope api; the rest comes from the pipeline.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

LIMIT = 500_000  # GitLab refuses a note above 1,000,000 characters
BY_HAND = "Look at a fresh plan, and apply it by hand if it is right."


class RefusedError(Exception):
    """Ends the job with words instead of a traceback."""


def variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise RefusedError(f"{name} is not set: this script runs inside a pipeline") from None


def fetch(method: str, path: str, body: object = None) -> bytes:
    url = f"{variable('CI_API_V4_URL')}/projects/{variable('CI_PROJECT_ID')}/{path}"
    request = urllib.request.Request(url, method=method)
    request.add_unredirected_header("PRIVATE-TOKEN", variable("GITLAB_TOKEN"))
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, data, timeout=60) as answer:
            raw: bytes = answer.read()
            return raw
    except urllib.error.HTTPError as error:
        raise RefusedError(f"{method} {url} was answered with {error.code}: {error.read(500)!r}") from None
    except urllib.error.URLError as error:
        raise RefusedError(f"{method} {url} failed: {error.reason}") from None


def call(method: str, path: str, body: object = None) -> Any:
    return json.loads(fetch(method, path, body))


def comment(file: Path) -> None:
    """One note, found again by its first line up to the digest."""
    text = file.read_text(encoding="utf-8")
    marker = text.partition(', "digest"')[0]
    place = f"merge_requests/{variable('CI_MERGE_REQUEST_IID')}/notes"
    notes = call("GET", f"{place}?per_page=100&sort=asc")
    old = next((note for note in notes if note["body"].startswith(marker)), None)
    if old is None:
        call("POST", place, {"body": text[:LIMIT]})
    else:
        call("PUT", f"{place}/{old['id']}", {"body": text[:LIMIT]})


def reviewed_plan(target: Path) -> None:
    """From the newest pipeline of the merged request's last commit that ran in this project, not in a fork."""
    commit = variable("CI_COMMIT_SHA")
    requests = call("GET", f"repository/commits/{commit}/merge_requests")
    merged = next((one for one in requests if one["state"] == "merged"), None)
    if merged is None:
        raise RefusedError(f"commit {commit} came without a merge request: no plan was reviewed. {BY_HAND}")
    pipelines = call("GET", f"merge_requests/{merged['iid']}/pipelines")
    own = [
        one for one in pipelines if one["sha"] == merged["sha"] and str(one["project_id"]) == variable("CI_PROJECT_ID")
    ]
    for pipeline in sorted(own, key=lambda one: int(one["id"]), reverse=True):
        for job in call("GET", f"pipelines/{pipeline['id']}/jobs?per_page=100"):
            if job["name"] == f"plan: [{variable('ENVIRONMENT')}]":
                target.write_bytes(fetch("GET", f"jobs/{job['id']}/artifacts/plan.json"))
                print(f"the reviewed plan is of job {job['id']} of merge request {merged['iid']}")
                return
    raise RefusedError(f"no plan of {variable('ENVIRONMENT')} was made for {merged['sha']}. {BY_HAND}")


def issue(code: str, file: Path) -> None:
    """One open issue while there is drift, or while it cannot be told; closed when there is none."""
    environment = variable("ENVIRONMENT")
    title = f"Drift in {environment}"
    found = call("GET", f"issues?state=opened&in=title&search={urllib.parse.quote(title)}")
    old = next((one for one in found if one["title"] == title), None)
    if code == "0":
        print(f"no drift in {environment}")
        if old is not None:
            call("PUT", f"issues/{old['iid']}", {"state_event": "close"})
        return
    told = file.read_text(encoding="utf-8") if file.exists() else f"It could not be told: {variable('CI_JOB_URL')}"
    if old is None:
        call("POST", "issues", {"title": title, "description": told[:LIMIT], "labels": "drift"})
    else:
        call("PUT", f"issues/{old['iid']}", {"description": told[:LIMIT]})


def main(words: list[str]) -> None:
    match words:
        case ["comment", file]:
            comment(Path(file))
        case ["reviewed-plan", target]:
            reviewed_plan(Path(target))
        case ["issue", code, file]:
            issue(code, Path(file))
        case _:
            raise RefusedError("usage: comment FILE, reviewed-plan FILE, or issue CODE FILE")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RefusedError as error:
        sys.exit(f"gitlab.py: {error}")
