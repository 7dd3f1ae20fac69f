"""A plan as text: verdict, ground, changes by stage and cluster, then everything that will not be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from reconciler import planfile
from reconciler.changes import Change, Risk, Stage, TopicChange
from reconciler.plans import Basis, Plan, Planned
from reconciler.rendering.changes import described, headline, signature, subject
from reconciler.rendering.lists import left_lists
from reconciler.rendering.style import Style
from reconciler.summary import action, counted, verdict

FOLD = 3
_STAGE_WHY = {
    Stage.TARGET_TOPICS: "before anything flows to them",
    Stage.SOURCE_TOPICS: "once their remote topics are ready",
    Stage.MIRROR: "after the topics they write to",
    Stage.REMOVALS: "when nothing of this plan uses them any more; only what has a tombstone is ever deleted",
}


def plan_text(plan: Plan, style: Style | None = None) -> str:
    chosen = style or Style()
    lines = [chosen.paint("bold", verdict(plan)), *_ground(plan.basis)]
    for number, (stage, planned) in enumerate(groupby(plan.changes, key=lambda one: one.stage), start=1):
        lines += ["", f"{number}. {stage}, {_STAGE_WHY[Stage(stage)]}"]
        for place, together in groupby(planned, key=_place):
            lines += [f"  {place}"] if place else []
            lines += _changes(list(together), chosen, "    " if place else "  ")
    return "\n".join([*lines, *left_lists(plan, chosen)]) + "\n"


def plan_json(plan: Plan) -> str:
    """The saved plan itself, as schemas/plan.schema.json."""
    return planfile.dumps(plan)


def _ground(basis: Basis) -> Iterator[str]:
    revision = f", commit {basis.revision[:12]}" if basis.revision else ""
    dirty = " with uncommitted changes" if basis.dirty else ""
    yield f"environment {basis.environment}{revision}{dirty}, topology {basis.topology_digest[:12]}"
    for one in basis.clusters:
        if one.cluster_id is None:
            yield f"  {one.name}: could not be read"
        else:
            counts = f"{counted(one.brokers, 'broker')}, {counted(one.topics, 'topic')} visible"
            yield f"  {one.name}: cluster id {one.cluster_id}, {counts}"


def _place(planned: Planned) -> str:
    return planned.change.ref.cluster if isinstance(planned.change, TopicChange) else ""


def _changes(planned: Sequence[Planned], style: Style, indent: str) -> Iterator[str]:
    """Equal changes on many topics become one entry with a list of names."""
    alike: dict[object, list[Planned]] = {}
    for one in planned:
        alike.setdefault((signature(one.change), one.risk, one.needs_why), []).append(one)
    for members in alike.values():
        if len(members) >= FOLD:
            yield from _folded(members, style, indent)
        else:
            for one in members:
                yield from _entry(one, style, indent)


def _entry(planned: Planned, style: Style, indent: str) -> Iterator[str]:
    change = planned.change
    yield f"{indent}{_sign(change, style)} {subject(change)}: {headline(change)}"
    yield from _inner([planned], style, f"{indent}    ")


def _folded(members: Sequence[Planned], style: Style, indent: str) -> Iterator[str]:
    change = members[0].change
    yield f"{indent}{_sign(change, style)} {counted(len(members), 'topic')}, each: {headline(change, alone=False)}"
    yield f"{indent}    {style.listed([subject(one.change) for one in members])}"
    yield from _inner(members, style, f"{indent}    ")


def _inner(members: Sequence[Planned], style: Style, indent: str) -> Iterator[str]:
    first = members[0]
    reasons = list(dict.fromkeys(one.change.reason.text for one in members))
    if len(members) > 1:
        yield f"{indent}why: {reasons[0] if len(reasons) == 1 else f'{reasons[0]}, and so on'}"
    yield from (f"{indent}{line}" for line in described([one.change for one in members]))
    if first.risk != Risk.LOW or first.risk_why:
        label = f"{first.risk.upper()} risk" if first.risk == Risk.HIGH else f"{first.risk} risk"
        text = f"{label}: {first.risk_why} ({first.reversibility})"
        yield f"{indent}{style.paint('alarm', text) if first.risk == Risk.HIGH else text}"
    needs = list(dict.fromkeys(need for one in members for need in one.needs))
    if needs:
        yield f"{indent}after {style.listed(needs)}: {first.needs_why}"


def _sign(change: Change, style: Style) -> str:
    mark = action(change).value
    return style.paint(mark, mark)
