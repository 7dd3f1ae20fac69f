"""The demo's working copy of ``environments/sandbox``, and the edits it makes there.

Committed files are never touched. The copy shares the run folder of the committed environment, because both describe
the same clusters and the same mirror job.
"""

from __future__ import annotations

import difflib
import io
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from reconciler.backends.mirror_jobs.runner.run_folder import state_folder
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.paths import ROOT, STATE

COMMITTED = ROOT / "environments" / "sandbox"
COPY = STATE / "demo" / "environments" / "sandbox"

Edit = Callable[[Any], None]


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def reset(addresses: Mapping[str, str]) -> Path:
    """A fresh copy whose clusters have these addresses (cluster -> bootstrap servers, comma separated)."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(COMMITTED, COPY)
    shared, link = state_folder(COMMITTED).parent, COPY.parent / ".reconciler"
    if link.is_symlink() and link.resolve() != shared:
        link.unlink()
    if not link.is_symlink():
        link.symlink_to(shared, target_is_directory=True)
    for cluster, servers in addresses.items():
        _edit("clusters", cluster, _addresses(servers.split(",")))
    return COPY


def _addresses(servers: list[str]) -> Edit:
    def change(cluster: Any) -> None:
        change = cluster.get("bootstrap_servers") if isinstance(cluster, dict) else None
        if isinstance(change, list) and change != servers:  # what is not a list is for `validate` to name
            change[:] = servers

    return change


def set_topic_config(topic: str, key: str, value: str) -> str:
    """The edit as a diff. Raises SandboxError when the environment has no such topic."""

    def change(document: Any) -> None:
        document.setdefault("configs", {})[key] = value

    return _edit("topics", topic, change)


def add_pattern(flow: str, pattern: str) -> str:
    """The edit as a diff. Raises SandboxError when the environment has no such flow."""

    def change(document: Any) -> None:
        if pattern not in document["topics"]:
            document["topics"].append(pattern)

    return _edit("flows", flow, change)


def _edit(section: str, name: str, change: Edit) -> str:
    for path in sorted(COPY.glob("*.yaml")):
        before = path.read_text(encoding="utf-8")
        try:
            parsed = _yaml().load(before)
        except YAMLError as error:
            raise _broken(path, error) from None
        if isinstance(parsed, dict) and name in (parsed.get(section) or {}):
            change(parsed[section][name])
            written = io.StringIO()
            _yaml().dump(parsed, written)
            path.write_text(written.getvalue(), encoding="utf-8")
            return diff(path.name, before, written.getvalue())
    todo = "Bring it back (git diff environments/sandbox shows what changed), then run the demo again."
    raise SandboxError(f"environments/sandbox has no {name} under {section}", "The demo edits it.", todo)


def _broken(path: Path, error: YAMLError) -> SandboxError:
    todo = "Fix it; `.venv/bin/reconciler validate environments/sandbox` names every problem with its line."
    return SandboxError(f"environments/sandbox/{path.name} is not YAML:\n{error}", "The demo edits a copy of it.", todo)


def diff(name: str, before: str, after: str) -> str:
    """Only the lines that changed, with the one before; empty when none did."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{name}", f"b/{name}", n=1, lineterm="")
    return "\n".join(lines)
