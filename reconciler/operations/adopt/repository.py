"""``init --repository``: writes the workflows and other files of a repository that uses this tool by its actions."""

import re
import shlex
from collections.abc import Iterator
from importlib.metadata import metadata, version
from importlib.resources import files
from pathlib import Path

from reconciler.backends.files import is_taken, write_texts
from reconciler.errors import ReconcilerError
from reconciler.text import counted

TEMPLATES = {
    "README.md": "README.md",
    ".gitignore": "gitignore",
    ".pre-commit-config.yaml": "pre-commit-config.yaml",
    ".github/CODEOWNERS": "CODEOWNERS",
    ".github/dependabot.yml": "dependabot.yml",
    ".github/workflows/plan.yml": "plan.yml",
    ".github/workflows/apply.yml": "apply.yml",
    ".github/workflows/drift.yml": "drift.yml",
}
"""Path in the repository -> file in ``templates/``."""
_NAME = "kafka-topology-reconciler"
_NOBODY = f"OWNER/{_NAME}"
"""Placeholder for a repository that is not known."""
_WORDS = re.compile(rf"\b{_NOBODY}\b|\b(?:REF|ENVIRONMENT|NAME)\b")
_ACTIONS = re.compile(r"([\w.-]+/[\w.-]+)@([\w./-]+)")


def environment_in(repository: Path, environment: Path | None) -> Path:
    """The environment's folder, by default ``environments/prod``. Raises ReconcilerError for a folder where the
    workflows would not find it."""
    folder = environment or repository / "environments" / "prod"
    inside = repository / "environments"
    if folder.resolve().parent != inside.resolve():
        words = ["reconciler", "init", str(inside / folder.name), "--repository", str(repository)]
        raise ReconcilerError(
            f"{folder} is not a folder of {inside}",
            "The workflows of the repository plan and apply the folders of environments/.",
            shlex.join(words),
        )
    return folder


def actions_of(actions: str) -> tuple[str, str]:
    """The repository with this tool's actions, and its tag or commit. ``actions``: ``OWNER/NAME@REF``; empty: the
    repository and tag that released this version. Raises ReconcilerError."""
    named = _ACTIONS.fullmatch(actions or f"{_released_by()}@v{version(_NAME)}")
    if named is None:
        raise ReconcilerError(
            f"--actions is {actions}",
            "The workflows get plan, apply and drift from that repository, at that tag or commit.",
            f"Write OWNER/NAME@REF, such as example/{_NAME}@v{version(_NAME)}.",
        )
    return named[1], named[2]


def write_repository(repository: Path, environment: Path, actions: tuple[str, str]) -> Iterator[str]:
    """Writes missing files; yields lines about written files, kept files and open decisions. ``actions``: as returned
    by ``actions_of``. Raises ReconcilerError."""
    words = {_NOBODY: actions[0], "REF": actions[1]}
    words |= {"ENVIRONMENT": f"environments/{environment.name}", "NAME": environment.name}
    # The user may have edited an existing file, so it is never overwritten.
    kept = [path for path in TEMPLATES if is_taken(repository / path)]
    templates = files(__package__) / "templates"
    texts = {
        repository / path: _WORDS.sub(lambda word: words[word[0]], (templates / name).read_text(encoding="utf-8"))
        for path, name in TEMPLATES.items()
        if path not in kept
    }
    write_texts(texts)
    yield f"Wrote {counted(len(texts), 'file')} of the repository {repository}"
    if kept:
        yield f"  kept as they are: {', '.join(kept)}"
    if actions[0] == _NOBODY:
        yield "  left to decide: the OWNER of the actions in .github/workflows and .pre-commit-config.yaml"
    yield "  left to decide: teams in .github/CODEOWNERS, secrets and variables on GitHub: README.md"


def _released_by() -> str:
    """``OWNER/NAME`` on GitHub, from the package's metadata."""
    urls = "\n".join(metadata(_NAME).get_all("Project-URL") or [])
    named = re.search(r"^Repository, https://github\.com/([\w.-]+/[\w.-]+)$", urls, re.MULTILINE)
    return named[1] if named else _NOBODY
