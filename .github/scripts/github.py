"""What the workflows say to GitHub: one sticky comment, one issue, and the plan that was reviewed.

Standard library only. Run inside a workflow; GITHUB_TOKEN, GITHUB_API_URL, GITHUB_REPOSITORY and the variables of the
job come from there.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from comment_text import fenced, quoted, shown

CLEAN, CHANGES, BLOCKED = "0", "2", "3"
LIMIT = 65_000  # GitHub refuses a comment above 65,536 characters
LABEL = "drift"
UNLISTED = '"planned": false'
BY_HAND = "Look at a fresh plan, and run the workflow apply by hand if it is right."


class RefusedError(Exception):
    """Ends the step with words instead of a traceback."""


def variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise RefusedError(f"{name} is not set: this script runs inside a workflow") from None


def call(method: str, path: str, body: object = None) -> Any:
    with _opened(method, f"{variable('GITHUB_API_URL')}/repos/{variable('GITHUB_REPOSITORY')}/{path}", body) as answer:
        return json.load(answer)


def _opened(method: str, url: str, body: object = None) -> Any:
    request = urllib.request.Request(url, method=method)
    # Unredirected: an artifact's address leads to another host, which must not see the token.
    request.add_unredirected_header("Authorization", f"Bearer {variable('GITHUB_TOKEN')}")
    request.add_header("Accept", "application/vnd.github+json")
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        return urllib.request.urlopen(request, data, timeout=60)
    except urllib.error.HTTPError as error:
        what = error.read(500).decode(errors="replace")
        raise RefusedError(f"{method} {url} was answered with {error.code}: {what}") from None
    except (OSError, http.client.HTTPException) as error:
        raise RefusedError(f"{method} {url} failed: {error}") from None


def pages(path: str, key: str | None = None) -> Iterator[Any]:
    page = 1
    while True:
        found = call("GET", f"{path}{'&' if '?' in path else '?'}per_page=100&page={page}")
        some = found[key] if key else found
        yield from some
        if len(some) < 100:
            return
        page += 1


def read(folder: Path, name: str) -> str:
    path = folder / name
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def keep_comment(pull_request: str, marker: str, text: str | None) -> None:
    """One comment that begins with ``marker``: made, or brought up to date. None: brought up to date if it is there."""
    theirs = (c for c in pages(f"issues/{pull_request}/comments") if c["user"]["type"] == "Bot")
    old = next((c for c in theirs if c["body"].startswith(marker)), None)
    if old is not None:
        body = text or f"{marker}}} -->\nThe edit does not touch this environment any more.\n"
        call("PATCH", f"issues/comments/{old['id']}", {"body": body})
    elif text is not None:
        call("POST", f"issues/{pull_request}/comments", {"body": text})


def comment_plan(code: str, folder: Path) -> None:
    marker = f'<!-- reconciler-plan {{"environment": {quoted(variable("ENVIRONMENT"))}'
    text: str | None = read(folder, "comment.md")
    if not text and code == CLEAN:
        text = None
    elif not text:
        why = f"No plan of {variable('ENVIRONMENT')} could be made (exit code {code}).\n\n"
        text = f"{marker}}} -->\n### {why}{fenced(read(folder, 'said.txt'), LIMIT // 2)}"
    keep_comment(variable("PULL_REQUEST"), marker, text)


def comment_unlisted(folder: Path) -> None:
    """``folder`` has one of its own for each touched environment that is not planned; others are told no longer."""
    names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        marker = f'<!-- reconciler-plan {{"environment": {quoted(name)}'
        keep_comment(variable("PULL_REQUEST"), marker, f"{marker}, {UNLISTED}}} -->\n{unplanned(name, folder / name)}")
    for old in list(pages(f"issues/{variable('PULL_REQUEST')}/comments")):
        told = re.match(r'<!-- reconciler-plan \{"environment": ("(?:[^"\\]|\\.)*"), ' + UNLISTED, old["body"])
        planned = json.loads(
            os.environ.get("RECONCILER_ENVIRONMENTS") or "[]"
        )  # whose job keeps the comment from now on
        if told and old["user"]["type"] == "Bot" and json.loads(told[1]) not in (*names, *planned):
            keep_comment(variable("PULL_REQUEST"), f'<!-- reconciler-plan {{"environment": {told[1]}', None)


def unplanned(name: str, folder: Path) -> str:
    valid = read(folder, "code.txt").strip() == CLEAN
    edit = read(folder, "edit.md")
    if len(edit) > LIMIT // 3:
        edit = "What the edit means is too long for this comment: reconciler plan --base REF --offline tells it.\n"
    return (
        f"### {shown(name)} is {'valid' if valid else 'not valid'}, and not planned\n\n"
        "The repository variable RECONCILER_ENVIRONMENTS does not list it: no cluster was asked, and nothing will be"
        " applied after the merge. To have it planned, make its GitHub environments"
        f" {shown(name + '-plan')} and {shown(name + '-apply')}, and add it to the"
        " variable (docs/begin/ci.md).\n\n"
        f"{fenced(read(folder, 'said.txt'), LIMIT // 2)}\n{edit}"
    )


def comment_outcome(code: str, folder: Path) -> None:
    """Under the merged pull request; a push without one has only the summary of its run."""
    pull_request = merged_pull_request()
    if pull_request is not None:
        said = "" if code == CLEAN else fenced(read(folder, "said.txt"), LIMIT // 2)
        head = f"### apply of {variable('ENVIRONMENT')}: exit code {code}\n\n"
        text = f"{head}{read(folder, 'outcome.md')}\n{said}"[:LIMIT]
        call("POST", f"issues/{pull_request['number']}/comments", {"body": text})


def merged_pull_request() -> Any | None:
    found = call("GET", f"commits/{variable('COMMIT')}/pulls")
    return next((one for one in found if one["merged_at"] and one["merge_commit_sha"] == variable("COMMIT")), None)


def refuse_the_past() -> None:
    """What was reviewed for a commit could undo what was merged after it: a run that is started again has to be of the
    newest."""
    if os.environ.get("GITHUB_RUN_ATTEMPT", "1") == "1":
        return
    commit, branch = variable("COMMIT"), variable("GITHUB_REF_NAME")
    since = call("GET", f"compare/{commit}...{quote(branch)}")
    names = [one["filename"] for one in since["files"]]
    known = since["status"] in ("identical", "ahead") and len(names) < 300  # GitHub tells no more
    if not known or any(name.startswith("environments/") for name in names):
        raise RefusedError(
            f"this run of {commit} is started again, and {branch} has gone on: environments were edited since, or it"
            f" cannot be told. What was reviewed for it could undo that. {BY_HAND}"
        )


def reviewed_plan(target: Path) -> None:
    """The newest plan made for the last commit of the merged pull request, by this repository and not by a fork."""
    refuse_the_past()
    merged = merged_pull_request()
    if merged is None:
        raise RefusedError(f"commit {variable('COMMIT')} came without a pull request: no plan was reviewed. {BY_HAND}")
    name = f"plan-{variable('ENVIRONMENT')}-{merged['number']}"
    own = [
        artifact
        for artifact in pages(f"actions/artifacts?name={quote(name)}", "artifacts")
        if not artifact["expired"]
        and artifact["workflow_run"]["head_sha"] == merged["head"]["sha"]
        and artifact["workflow_run"]["head_repository_id"] == artifact["workflow_run"]["repository_id"]
    ]
    if not own:
        raise RefusedError(f"no artifact {name} was made for its last commit, {merged['head']['sha']}. {BY_HAND}")
    newest = max(own, key=lambda artifact: artifact["created_at"])
    with _opened("GET", newest["archive_download_url"]) as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    target.write_bytes(archive.read("plan.json"))
    print(f"the reviewed plan is {name} of pull request {merged['number']}, made {newest['created_at']}")


def issue(code: str, folder: Path) -> None:
    """One open issue while there is drift, or while it cannot be told; closed when there is none."""
    environment = variable("ENVIRONMENT")
    marker = f"<!-- reconciler-drift {quoted(environment)} -->"
    old = next((one for one in pages(f"issues?state=open&labels={LABEL}") if marker in (one["body"] or "")), None)
    if code == CLEAN:
        print(f"no drift in {environment}")
        if old is not None:
            call("POST", f"issues/{old['number']}/comments", {"body": f"No drift any more: {variable('RUN_URL')}"})
            call("PATCH", f"issues/{old['number']}", {"state": "closed"})
        return
    known = code in (CHANGES, BLOCKED)  # blocked: it differs in what apply cannot bring back
    title = f"Drift in {environment}" if known else f"Drift of {environment} could not be told"
    said = "" if known else fenced(read(folder, "said.txt"), LIMIT // 2)
    text = f"{marker}\n{read(folder, 'drift.md')}\n{said}"[:LIMIT] + f"\nLast looked at by {variable('RUN_URL')}\n"
    if old is None:
        call("POST", "issues", {"title": title, "body": text, "labels": [LABEL]})
    else:
        call("PATCH", f"issues/{old['number']}", {"title": title, "body": text})


def main(words: list[str]) -> None:
    match words:
        case ["comment-plan", code, folder]:
            comment_plan(code, Path(folder))
        case ["comment-unlisted", folder]:
            comment_unlisted(Path(folder))
        case ["comment-outcome", code, folder]:
            comment_outcome(code, Path(folder))
        case ["reviewed-plan", target]:
            reviewed_plan(Path(target))
        case ["issue", code, folder]:
            issue(code, Path(folder))
        case _:
            raise RefusedError(
                "usage: comment-plan|comment-outcome|issue CODE DIR, comment-unlisted DIR, or reviewed-plan FILE"
            )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RefusedError as error:
        sys.exit(f"github.py: {error}")
