"""The parity report as text or JSON: what differs against the rules first, then what a rule allows, folded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from reconciler.parity import Disparity, Parity
from reconciler.rendering.style import Style
from reconciler.summary import counted

FORMAT_VERSION = 1


def parity_verdict(found: Parity) -> str:
    wrong = sum(1 for one in found.disparities if not one.allowed)
    pairs = f"{counted(found.compared, 'pair')} of topics compared"
    parts = [f"{counted(wrong, 'difference')} that no rule allows" if wrong else "No difference that no rule allows"]
    if allowed := len(found.disparities) - wrong:
        parts.append(f"{allowed} allowed")
    if found.unknown:
        parts.append(f"{len(found.unknown)} unknown")
    return f"{'; '.join(parts)}; {pairs}"


def parity_text(found: Parity, style: Style | None = None) -> str:
    chosen = style or Style()
    lines = [chosen.paint("bold", parity_verdict(found)), f"environment {found.environment}"]
    lines += _part([one for one in found.disparities if not one.allowed], "Not allowed", chosen)
    lines += [f"  unknown: {one.subject}: {one.error}" for one in found.unknown]
    lines += _part([one for one in found.disparities if one.allowed], "Allowed", chosen)
    return "\n".join(lines) + "\n"


def _part(found: list[Disparity], title: str, style: Style) -> Iterator[str]:
    if found:
        yield from ("", f"{title} ({len(found)})")
    alike: dict[tuple[str, str, str, str, str], list[str]] = {}
    for one in found:
        alike.setdefault((one.flow, one.field, one.here, one.there, one.why), []).append(
            f"{one.source} -> {one.remote}"
        )
    for (flow, field, here, there, why), pairs in alike.items():
        yield f"  flow {flow}, {field}: {here} on the source, {there} on the target: {why}"
        yield f"    {style.listed(pairs)}"


def parity_json(found: Parity) -> str:
    """As schemas/parity.schema.json."""
    document = {
        "format_version": FORMAT_VERSION,
        "kind": "parity",
        "environment": found.environment,
        "verdict": parity_verdict(found),
        "exit_code": found.exit_code,
        "compared": found.compared,
        "disparities": [asdict(one) for one in found.disparities],
        "unknown": [asdict(one) for one in found.unknown],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
