"""``verify``: both sides of flows compared by Spark, one application a mirror.

Border: puts edges into doings, as ``wiring`` does; no arguments, no exit codes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.edges.verify_job import VerifyRun, run_verify_job
from reconciler.handover import handovers
from reconciler.verification import Verification, VerifyWish
from reconciler.verifying import answered, request
from reconciler.wiring import Session


def prove(session: Session, wish: VerifyWish, mirrors: Sequence[str], progress: Callable[[str], None]) -> Verification:
    """``mirrors``: those that carry the wished flows. ``progress``: for people who wait. Raises ReconcilerError."""
    began = time.monotonic()
    told = handovers(session.topology)
    answers = [_answer(session, wish, name, told[name], progress) for name in mirrors]
    return Verification(
        session.topology.environment,
        wish,
        tuple(partition for answer in answers for partition in answered(answer)),
        tuple(str(answer["application_id"]) for answer in answers),
        time.monotonic() - began,
    )


def _answer(
    session: Session, wish: VerifyWish, name: str, handover: str, progress: Callable[[str], None]
) -> Mapping[str, Any]:
    mirror = session.topology.mirrors[name]
    flows = [flow for flow in session.topology.flows_of(mirror) if wish.flow in (None, flow.name)]
    sides = {side for flow in flows for side in (flow.source, flow.target)}
    live = {side: session.clusters[side].read() for side in sorted(sides)}
    asked = request(wish, (flow.name for flow in flows), live)
    return run_verify_job(VerifyRun(mirror, session.state, handover, asked, wish.master), progress)
