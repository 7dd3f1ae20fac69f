"""``verify``: compares both sides of flows by Spark, one application a mirror."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.backends.mirror_jobs.runner.foreground_job import ForegroundRun, run_in_foreground
from reconciler.engine.observe.read_all import with_answers
from reconciler.engine.observe.unlisted import unlisted
from reconciler.model.environment.topology import Flow
from reconciler.model.live import LiveState
from reconciler.model.reports.verify import Verification, VerificationRequest
from reconciler.operations.apply.execution import interrupted_by_sigterm
from reconciler.operations.session.session import Session
from reconciler.resources.flows.routes import left_out_by
from reconciler.resources.mirrors.handover import handovers
from reconciler.resources.mirrors.verify_request import answered, request_fields


def prove(
    session: Session, request: VerificationRequest, mirrors: Sequence[str], progress: Callable[[str], None]
) -> Verification:
    """``mirrors``: those that carry the desired flows. ``progress``: for people who wait. Raises ReconcilerError."""
    began = time.monotonic()
    texts = handovers(session.topology)
    live = _live(session, request, mirrors)
    with interrupted_by_sigterm():
        answers = [_answer(session, request, name, (texts[name], live), progress) for name in mirrors]
    return Verification(
        session.topology.environment,
        request,
        tuple(partition for answer in answers for partition in answered(answer)),
        tuple(str(answer["application_id"]) for answer in answers),
        time.monotonic() - began,
        tuple(filter(None, (left_out_by(flow, session.topology, live) for flow in _flows(session, request, mirrors)))),
    )


def _flows(session: Session, request: VerificationRequest, mirrors: Sequence[str]) -> list[Flow]:
    flows = [flow for name in mirrors for flow in session.topology.flows_of(session.topology.mirrors[name])]
    return [flow for flow in flows if request.flow in (None, flow.name)]


def _live(session: Session, request: VerificationRequest, mirrors: Sequence[str]) -> LiveState:
    """Both sides of the flows that are asked about."""
    sides = {side for flow in _flows(session, request, mirrors) for side in (flow.source, flow.target)}
    live = {side: session.whole(side) for side in sorted(sides)}
    for side, names in unlisted(session.topology, LiveState(live, {})).items():
        live[side] = with_answers(live[side], session.clusters[side].read(names))
    return LiveState(live, {})


def _answer(
    session: Session,
    request: VerificationRequest,
    name: str,
    basis: tuple[str, LiveState],
    progress: Callable[[str], None],
) -> Mapping[str, Any]:
    """``basis``: the mirror's hand-over, and both sides of its flows."""
    handover, live = basis
    flows = _flows(session, request, [name])
    sides = {side: cluster for flow in flows for side in (flow.source, flow.target) if (cluster := live.known(side))}
    asked = request_fields(request, (flow.name for flow in flows), sides)
    mirror = session.topology.mirrors[name]
    return run_in_foreground(ForegroundRun(mirror, session.state, handover, asked, request.master), progress)
