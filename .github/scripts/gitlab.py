"""What the pipelines say to GitLab: one note in a merge request, one issue, and the plan that was reviewed.

Standard library only. GITLAB_TOKEN: a project access token with the scope api; the rest comes from the pipeline.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from comment_text import fenced, quoted, shown

LIMIT = 500_000  # GitLab refuses a note above 1,000,000 characters
CLEAN = "0"
KNOWN = ("0", "2", "3")  # 3: it differs in what apply cannot bring back
LABEL = "drift"
UNLISTED = '"planned": false'
BY_HAND = "Look at a fresh plan, and apply it by hand if it is right."


class RefusedError(Exception):
    """Ends the job with words instead of a traceback."""


def variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise RefusedError(f"{name} is not set: this script runs inside a pipeline") from None


def fetch(method: str, path: str, body: object = None) -> bytes:
    """``path``: within this project, or from the root of the API when it begins with a slash."""
    within = "" if path.startswith("/") else f"/projects/{variable('CI_PROJECT_ID')}/"
    url = f"{variable('CI_API_V4_URL')}{within}{path}"
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
    except (OSError, http.client.HTTPException) as error:
        raise RefusedError(f"{method} {url} failed: {error}") from None


def call(method: str, path: str, body: object = None) -> Any:
    return json.loads(fetch(method, path, body))


def pages(path: str) -> Iterator[Any]:
    page = 1
    while True:
        some = call("GET", f"{path}{'&' if '?' in path else '?'}per_page=100&page={page}")
        yield from some
        if len(some) < 100:
            return
        page += 1


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def comment(code: str, file: Path, said: Path) -> None:
    """One note of ours for each environment: made, or brought up to date, also when there is no plan any more."""
    environment = variable("ENVIRONMENT")
    text = read(file)
    if not text and code != CLEAN:
        why = f"### No plan of {environment} could be made (exit code {code}).\n\n"
        text = f"{marker(environment)}}} -->\n{why}{fenced(read(said), LIMIT // 2)}"
    keep_note(environment, text)


def marker(environment: str) -> str:
    return f'<!-- reconciler-plan {{"environment": {quoted(environment)}'


def notes() -> str:
    return f"merge_requests/{variable('CI_MERGE_REQUEST_IID')}/notes"


def our_notes() -> list[Any]:
    me = call("GET", "/user")["id"]
    return [note for note in pages(f"{notes()}?sort=asc") if note["author"]["id"] == me]


def keep_note(environment: str, text: str) -> None:
    """Without ``text``: brought up to date if it is there."""
    old = next((note for note in our_notes() if note["body"].startswith(marker(environment))), None)
    if old is not None:
        text = text or f"{marker(environment)}}} -->\nThe edit does not touch this environment any more.\n"
        call("PUT", f"{notes()}/{old['id']}", {"body": text[:LIMIT]})
    elif text:
        call("POST", notes(), {"body": text[:LIMIT]})


def planned() -> list[str]:
    """The environments of the matrix, as this pipeline's own jobs tell them: they are written in one place."""
    jobs = pages(f"pipelines/{variable('CI_PIPELINE_ID')}/jobs")
    return [found[1] for job in jobs if (found := re.fullmatch(r"plan: \[(.*)\]", job["name"]))]


def comment_unlisted(folder: Path) -> None:
    """``folder`` has one of its own for each touched environment that is not planned; others are told no longer."""
    names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        keep_note(name, f"{marker(name)}, {UNLISTED}}} -->\n{unplanned(name, folder / name)}")
    for old in our_notes():
        told = re.match(r'<!-- reconciler-plan \{"environment": ("(?:[^"\\]|\\.)*"), ' + UNLISTED, old["body"])
        if told and json.loads(told[1]) not in (*names, *json.loads(variable("RECONCILER_ENVIRONMENTS"))):
            keep_note(json.loads(told[1]), "")


def unplanned(name: str, folder: Path) -> str:
    valid = read(folder / "code.txt").strip() == CLEAN
    edit = read(folder / "edit.md")
    if len(edit) > LIMIT // 3:
        edit = "What the edit means is too long for this note: reconciler plan --base REF --offline tells it.\n"
    return (
        f"### {shown(name)} is {'valid' if valid else 'not valid'}, and not planned\n\n"
        "ENVIRONMENT in the pipeline's matrix does not list it: no cluster was asked, and nothing will be applied after"
        f" the merge. To have it planned, make its GitLab environments {shown(name + '-plan')} and"
        f" {shown(name + '-apply')}, and add it to the matrix (docs/begin/ci.md).\n\n"
        f"{fenced(read(folder / 'said.txt'), LIMIT // 2)}\n{edit}"
    )


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
        for job in pages(f"pipelines/{pipeline['id']}/jobs"):
            if job["name"] == f"plan: [{variable('ENVIRONMENT')}]":
                target.write_bytes(fetch("GET", f"jobs/{job['id']}/artifacts/plan.json"))
                print(f"the reviewed plan is of job {job['id']} of merge request {merged['iid']}")
                return
    raise RefusedError(f"no plan of {variable('ENVIRONMENT')} was made for {merged['sha']}. {BY_HAND}")


def issue(code: str, file: Path) -> None:
    """One open issue while there is drift, or while it cannot be told; closed when there is none."""
    environment = variable("ENVIRONMENT")
    marker = f"<!-- reconciler-drift {quoted(environment)} -->"
    found = pages(f"issues?state=opened&labels={LABEL}")
    old = next((one for one in found if marker in (one["description"] or "")), None)
    if code == CLEAN:
        print(f"no drift in {environment}")
        if old is not None:
            call("PUT", f"issues/{old['iid']}", {"state_event": "close"})
        return
    title = f"Drift in {environment}" if code in KNOWN else f"Drift of {environment} could not be told"
    told = f"{marker}\n{read(file)}"[:LIMIT] + f"\nLast looked at by {variable('CI_JOB_URL')}\n"
    if old is None:
        call("POST", "issues", {"title": title, "description": told, "labels": LABEL})
    else:
        call("PUT", f"issues/{old['iid']}", {"title": title, "description": told})


def main(words: list[str]) -> None:
    match words:
        case ["comment", code, file, said]:
            comment(code, Path(file), Path(said))
        case ["planned"]:
            print(json.dumps(planned()))
        case ["comment-unlisted", folder]:
            comment_unlisted(Path(folder))
        case ["reviewed-plan", target]:
            reviewed_plan(Path(target))
        case ["issue", code, file]:
            issue(code, Path(file))
        case _:
            raise RefusedError(
                "usage: comment CODE FILE SAID, planned, comment-unlisted DIR, reviewed-plan FILE, or issue CODE FILE"
            )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RefusedError as error:
        sys.exit(f"gitlab.py: {error}")
