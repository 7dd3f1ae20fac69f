"""Report of the probe after an ACL batch: the questions to brokers, and the verdict."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from reconciler.model.environment.topology import Principal
from reconciler.model.principals import AclBinding


class ProbeVerdict(StrEnum):
    """SKIPPED: cannot be asked from here, and blocks nothing; another check covers it."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    SKIPPED = "not probed"


@dataclass(frozen=True, slots=True)
class ProbeCheck:
    """One check of the probe that follows a wave of access changes."""

    subject: str
    """``rules``, ``who may do what``, or a principal."""
    verdict: ProbeVerdict
    text: str
    """With the proof of a failure."""
    todo: tuple[str, ...] = ()
    """Commands against changes by others, which our undo does not touch."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The probe of one wave of access changes."""

    cluster: str
    stage: str
    rules: int
    """Number of changed rules."""
    checks: tuple[ProbeCheck, ...]
    seconds: float = 0.0

    @property
    def verdict(self) -> ProbeVerdict:
        verdicts = {check.verdict for check in self.checks}
        worst = (ProbeVerdict.FAILED, ProbeVerdict.UNKNOWN)
        return next((verdict for verdict in worst if verdict in verdicts), ProbeVerdict.PASSED)

    @property
    def todo(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for check in self.checks for line in check.todo))

    @property
    def why(self) -> str:
        """Checks that did not pass; empty if it passed."""
        verdict = self.verdict
        passed = verdict is ProbeVerdict.PASSED
        return "" if passed else "; ".join(check.text for check in self.checks if check.verdict is verdict)


def probe_document(probe: Probe) -> dict[str, Any]:
    """As schemas/outcome.schema.json and schemas/audit.schema.json have it."""
    return {
        "cluster": probe.cluster,
        "stage": probe.stage,
        "rules": probe.rules,
        "verdict": probe.verdict.value,
        "checks": [asdict(check) for check in probe.checks],
        "seconds": round(probe.seconds, 3),
    }


@dataclass(frozen=True, slots=True)
class Needs:
    """The objects of one principal on one cluster."""

    kind: Principal
    name: str
    """``User:x``; empty if unknown."""
    rights: tuple[AclBinding, ...]
    """As rules, whose patterns cover the present ``topics`` and ``transactional_ids``."""
    topics: frozenset[str] = frozenset()
    transactional_ids: tuple[str, ...] = ()
