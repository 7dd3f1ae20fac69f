"""What the help of each command ends with: examples, and the exit codes it can end with (``plans.ExitCode``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ENDING = (
    "Exit codes: 0 nothing to do, or done; 1 error or unknown; 2 changes are pending, or sides differ; 3 blocked by a"
    " guard; 4 stale plan; 5 partly applied; 6 lock held; 130 interrupted. Pages: docs/ of the project."
)


def _ending(codes: str, *examples: str) -> str:
    """Paragraphs: lines within one are joined when help is printed."""
    return "\n\n".join((*(f"reconciler {one}" for one in examples), f"Exit codes: {codes}."))


_MOVED = "0 done; 1 error; 2 there is something to do (--dry-run); 3 a check stops it; 5 not all of it; 6 lock held"
_CHANGED = "0 done; 1 error; 6 lock held"
_DONE = "0 done; 1 error"

ENDINGS: Mapping[str, str] = MappingProxyType(
    {
        "validate": _ending(
            "0 valid; 1 problems, or an error", "validate environments/prod", "validate environments/prod --format json"
        ),
        "plan": _ending(
            "0 nothing to do; 1 error or unknown; 2 changes; 3 blocked by a guard",
            "plan environments/prod --out plan.json",
            "plan environments/prod --base main --offline",
        ),
        "explain": _ending(
            "0 told; 1 error or unknown",
            "explain environments/prod orders",
            "explain environments/prod east/orders:retention.ms --offline",
        ),
        "apply": _ending(
            "0 done; 1 error or unknown; 2 waves after --until-wave are left; 3 blocked by a guard; 4 stale plan;"
            " 5 partly applied; 6 lock held",
            "apply environments/prod",
            "apply environments/prod --plan plan.json --yes",
        ),
        "drift": _ending(
            "0 no drift; 1 error or unknown; 2 drift; 3 also drift that apply cannot mend",
            "drift environments/prod --format markdown",
            "drift environments/prod --accept east/orders:retention.ms",
        ),
        "adopt": _ending(
            "0 written, and a plan of it is empty; 1 error",
            "adopt --bootstrap-servers broker-1:9092 --name east --out environments/prod",
        ),
        "import": _ending(
            "0 written, and validate takes it; 1 error, and nothing is written",
            "import mm2.properties --out environments/prod",
        ),
        "doctor": _ending("0 no problem; 1 a problem, or an error", "doctor environments/prod"),
        "status": _ending(
            "0 everything answered; 1 error or unknown",
            "status environments/prod --watch",
            "status environments/prod --format json",
        ),
        "verify": _ending(
            "0 equal; 1 error or unknown; 2 different",
            "verify environments/prod east-to-west",
            "verify environments/prod --from 2026-01-31T00:00:00Z --parquet chunks",
        ),
        "run": _ending(
            "0 ended by SIGTERM or SIGINT; 1 error; 6 lock held, or stolen",
            "run environments/prod --interval 30s --autonomy safe --metrics-port 9400",
        ),
        "failover": _ending(_MOVED, "failover environments/prod east-to-west --dry-run"),
        "failback": _ending(_MOVED, "failback environments/prod east-to-west --dry-run"),
        "mirror start": _ending(
            _CHANGED,
            "mirror start environments/prod east-to-west",
            "mirror start environments/prod --until-caught-up --lag-zero-for 30s",
        ),
        "mirror stop": _ending(_CHANGED, "mirror stop environments/prod"),
        "mirror pause": _ending(
            _DONE, "mirror pause environments/prod east-to-west --topic orders --reason maintenance"
        ),
        "mirror resume": _ending(_DONE, "mirror resume environments/prod"),
        "mirror seek": _ending(
            _DONE,
            "mirror seek environments/prod east-to-west --topic orders",
            "mirror seek environments/prod east-to-west --topic orders --partition 3 --to earliest",
        ),
        "mirror import-positions": _ending(
            "0 shown, or written; 1 error or unknown; 3 not written, for something still copies",
            "mirror import-positions environments/prod east-to-west",
            "mirror import-positions environments/prod --write",
            "mirror import-positions environments/prod --offsets-topic connect-offsets --connector mm2-source",
        ),
        "offsets translate": _ending(
            "0 all exact; 1 error; 2 some are not, and why",
            "offsets translate environments/prod east-to-west --group billing",
            "offsets translate environments/prod east-to-west --topic orders --partition 0 --offset 1200",
        ),
        "reassignments show": _ending("0 told; 1 error or unknown", "reassignments show environments/prod"),
        "reassignments cancel": _ending(_CHANGED, "reassignments cancel environments/prod"),
        "sandbox up": _ending(_DONE, "sandbox up --profile secure"),
        "sandbox down": _ending(_DONE, "sandbox down --clear"),
        "sandbox status": _ending(_DONE, "sandbox status"),
        "sandbox env": _ending(_DONE, "sandbox env --profile secure"),
    }
)
