"""What is asked after a wave of access changes, and what came of it. Verdicts come from ``probing``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reconciler.acls import AclBinding
from reconciler.topology import Principal


class Verdict(StrEnum):
    """SKIPPED: could not be asked from here, which holds nothing up; something else covers it."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    SKIPPED = "not probed"


@dataclass(frozen=True, slots=True)
class Check:
    """``subject``: ``rules``, ``who may do what``, or a principal; ``text`` has the proof where it failed.

    ``todo``: commands against what others did, which no undo of ours touches.
    """

    subject: str
    verdict: Verdict
    text: str
    todo: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """Of one wave: ``rules`` changes of one stage on one cluster."""

    cluster: str
    stage: str
    rules: int
    checks: tuple[Check, ...]
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        found = {one.verdict for one in self.checks}
        for worst in (Verdict.FAILED, Verdict.UNKNOWN):
            if worst in found:
                return worst
        return Verdict.PASSED

    @property
    def todo(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for one in self.checks for line in one.todo))

    @property
    def why(self) -> str:
        """What did not pass; empty when it passed."""
        return "; ".join(one.text for one in self.checks if one.verdict is self.verdict is not Verdict.PASSED)


def probe_document(probe: Probe) -> dict[str, Any]:
    """As schemas/outcome.schema.json and schemas/audit.schema.json have it."""
    return {
        "cluster": probe.cluster,
        "stage": probe.stage,
        "rules": probe.rules,
        "verdict": probe.verdict.value,
        "checks": [
            {"subject": one.subject, "verdict": one.verdict.value, "text": one.text, "todo": list(one.todo)}
            for one in probe.checks
        ],
        "seconds": round(probe.seconds, 3),
    }


@dataclass(frozen=True, slots=True)
class Needs:
    """What one principal works with on one cluster. ``name``: ``User:x``; empty where nothing tells as whom it logs in.

    ``rights``: as rules, whose patterns stand for ``topics`` and ``transactional_ids``, those of today.
    """

    kind: Principal
    name: str
    rights: tuple[AclBinding, ...]
    topics: frozenset[str] = frozenset()
    transactional_ids: tuple[str, ...] = ()
