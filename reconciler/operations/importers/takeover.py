"""``takeover``: continues the flows of MirrorMaker 2, in one command that can be ended and resumed.

It keeps no state besides the results of its steps: the files, ``start: {offsets: ...}`` in them, and running mirrors.
Each run checks these, and begins with the first missing one.
"""

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from reconciler.backends.files import is_taken
from reconciler.errors import BlockedError, ExitCode
from reconciler.model.environment.topology import Flow, Principal
from reconciler.model.live import LiveMirror
from reconciler.model.options import CONNECTOR
from reconciler.model.reports.verify import Verification, VerificationRequest
from reconciler.model.state.last_apply import Consent
from reconciler.operations.apply.run import ApplyRequest, apply
from reconciler.operations.importers import mirrormaker
from reconciler.operations.importers.positions import Imported, ImportRequest, import_positions
from reconciler.operations.mirror.foreground import prove
from reconciler.operations.mirror.pause import job_of
from reconciler.operations.session.session import Session, open_session

Say = Callable[[str], None]
STOP = (
    "Stop MirrorMaker 2 now: SIGTERM to connect-mirror-maker, PUT /connectors/NAME/stop on a Connect cluster, or "
    "replicas: 0 with Strimzi. Wait until it has ended."
)


def take_over(
    paths: Sequence[Path], folder: Path, *, yes: bool, show: Say, say: Say, positions_text: Callable[[Imported], str]
) -> Verification | ExitCode:
    """Returns the result of ``verify`` if an earlier run has started the mirrors of all flows, else the progress of
    this run. ``yes``: apply the plan without asking. Raises ReconcilerError, and BlockedError while MirrorMaker 2
    runs."""
    again = shlex.join(["reconciler", "takeover", *map(str, paths), "--out", str(folder)])
    imported, asked = mirrormaker.read(paths, folder)
    if not is_taken(folder):
        show(mirrormaker.run(paths, folder, onward=False))
    else:
        with open_session(folder, Principal.PLAN) as session:
            declared = [mirrormaker.declared(session.topology, flow) for flow in asked.flows.values()]
        if None in declared:
            show(mirrormaker.run_into(paths, folder, onward=False))
        else:
            say(f"{folder} already declares its flows")

    # Imports positions of flows without one. A running MirrorMaker 2 would keep copying records after these positions.
    with open_session(folder, Principal.PLAN) as session:
        flows = [flow for each in asked.flows.values() if (flow := mirrormaker.declared(session.topology, each))]
        begun = {flow.name: _has_begun(session, flow) for flow in flows}
    names = {flow.name: each.name for each, flow in zip(asked.flows.values(), flows, strict=True)}
    for flow in flows:
        if flow.start.kind == "offsets" or begun[flow.name]:
            say(f"flow {flow.name} already has its positions")
            continue
        # MirrorMaker 2's own file says where its positions are, under its own names of flows.
        connector, topic = imported.connectors.get(names[flow.name], (CONNECTOR, ""))
        request = ImportRequest(flow.name, topic, connector, imported.aliases.get(names[flow.name]))
        try:
            done = import_positions(folder, request, True, say)
        except BlockedError as error:
            ready = f"Before you stop it, grant what is missing: {shlex.join(['reconciler', 'doctor', str(folder)])}."
            raise BlockedError(error.what, error.why, f"{ready} {STOP} Then continue: {again}") from None
        show(positions_text(done))

    code = apply(folder, ApplyRequest(Consent(first_contact=True), yes=yes), "")
    if code is not ExitCode.DONE or not all(begun.values()):
        if code is ExitCode.DONE:
            say(f"the mirror continues from there; prove it once status shows no lag: {again}")
        return code
    with open_session(folder, Principal.PLAN) as session:
        return prove(session, VerificationRequest(), _carriers(session, begun), say)


def _carriers(session: Session, flows: Iterable[str]) -> Sequence[str]:
    wanted = set(flows)
    return [name for name, mirror in session.topology.mirrors.items() if wanted & set(mirror.flows)]


def _has_begun(session: Session, flow: Flow) -> bool:
    job = job_of(session, flow.name) if _carriers(session, [flow.name]) else None
    return isinstance(job, LiveMirror) and job.state.runs and flow.name in job.flows
