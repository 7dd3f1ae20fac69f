"""Decides whether a mirror job must start, restart or stop, by the fingerprints of its running and desired config."""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from reconciler.errors import Unknown
from reconciler.model.changes import About, FlowEdit, Reason, RestartMirror, Risk, StartMirror, StopMirror, Subject, Why
from reconciler.model.copying import Copying, look
from reconciler.model.environment.topology import UNAUTHENTICATED, Mirror, TopicRef, Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.plan import Findings
from reconciler.replication.policy import make_selector
from reconciler.resources.flows.renames import KEEPS, entry, left_behind, renamed_flows, state_of
from reconciler.resources.flows.routes import Routing
from reconciler.resources.flows.same_offsets import kept_before
from reconciler.resources.mirrors.flow_edits import flow_edits, mirror_edits
from reconciler.resources.mirrors.handover import Handover, explain_difference, flows_before, mirror_handover
from reconciler.resources.mirrors.pause_and_seek import paused_notes
from reconciler.text import counted, first_of, moment

COST = "3 to 9 times the CPU of whole batches"


def compare_mirrors(
    topology: Topology,
    live: LiveState,
    routing: Routing,
    blocked: Mapping[str, str],
    previous: Mapping[str, Mapping[str, Any]],
) -> Iterable[Findings]:
    """``blocked``: flow -> the failed read, or empty if that is reported elsewhere. ``previous``: mirror -> the
    hand-over of its running job."""
    for mirror in topology.mirrors.values():
        if mirror.unauthenticated:
            note = f"mirror {mirror.name} uses {mirror.master} without spark.authenticate: {UNAUTHENTICATED}"
            yield Findings(notes=(note,))
        live_mirror = live.mirrors.get(mirror.name, Unknown(f"mirror {mirror.name}", "its job was not looked for"))
        if isinstance(live_mirror, Unknown):
            # A silent status cluster is reported with that cluster, and with its dependents.
            heard = live.known(topology.status_cluster(mirror)) is not None
            yield Findings(unknown=(live_mirror,) if heard else ())
        elif stuck := sorted(blocked.keys() & set(mirror.flows)):
            todo = "Fix what could not be read; then the job is compared again."
            failed = [f"flow {flow} rests on {blocked[flow]}" for flow in stuck if blocked[flow]]
            yield Findings(unknown=(Unknown(f"mirror {mirror.name}", "; ".join(failed), todo),) if failed else ())
        else:
            mirrors = mirror_handover(topology, mirror)
            known = previous.get(mirror.name)
            known = known if known is not None and known.get("fingerprint") == live_mirror.fingerprint else None
            compared = _compare(mirror, live_mirror, mirrors, _why(live_mirror, mirrors, routing, known), known)
            # Of a job that runs as declared, the plan says this with what ends it.
            not_copying: list[str] = []
            if live_mirror.state is JobState.RUNNING and not compared.settled:
                for flow in (look(flow) for flow in live_mirror.flows.values()):
                    if flow.copying is Copying.NO:
                        not_copying.append(f"mirror {live_mirror.name} runs, but {flow.words}. {flow.todo}")
            yield Findings(notes=(*paused_notes(live_mirror), *not_copying))
            yield compared
            before = (previous.get(mirror.name) or {}).get("flows", ())
            # Flows that look renamed would silently lose their positions.
            hints = tuple(
                f"flow {new} is new and exactly like flow {old}, which is gone: if it is {old} under another name,"
                f" write {entry(old, new)}, and its positions, offset map and pauses go along"
                for new, old in sorted(renamed_flows(before, mirrors["flows"]).items())
            )
            yield Findings(refused=tuple(left_behind(before, mirrors["flows"])), notes=hints)
    for name, stray in live.mirrors.items():
        if name not in topology.mirrors and isinstance(stray, LiveMirror) and stray.state is JobState.RUNNING:
            yield Findings(changes=(StopMirror(name, stray.fingerprint, Reason(Why.NOT_DECLARED, "no longer in git")),))


def _compare(
    mirror: Mirror, live: LiveMirror, fields: Handover, because: tuple[str, ...], before: Mapping[str, Any] | None
) -> Findings:
    """``before``: the hand-over of the running or last job."""
    fingerprint = str(fields["fingerprint"])
    edits = None if before is None else tuple(_edits(before, fields))
    match live.state:
        case JobState.RUNNING | JobState.STARTING:
            if live.fingerprint == fingerprint and (live.state is JobState.RUNNING or live.unseen is not None):
                return Findings(settled=(Subject(About.MIRROR, name=mirror.name),))
            if live.fingerprint == fingerprint:
                # A starting job may never copy, so it counts as declared only once it runs.
                since = "" if live.started_at_ms is None else f" since {moment(live.started_at_ms)}"
                said = f"{since} and does not copy yet{': ' + live.detail if live.detail else ''}"
                reason = Reason(Why.STARTING, f"its job is starting{said}; apply waits until it runs")
                return Findings(changes=(StartMirror(mirror.name, fingerprint, reason, _flows(fields)),))
            reason = Reason(Why.DEFINITION_CHANGED, "the running job was started with another definition")
            change = RestartMirror(mirror.name, live.fingerprint or "unknown", fingerprint, reason, because, edits)
            return Findings(changes=(change,))
        case JobState.ABSENT:
            reason = Reason(Why.NOT_RUNNING, "no job of this mirror was ever seen")
        case JobState.STOPPED:
            said = f": {live.detail}" if "caught up" in live.detail else ""
            reason = Reason(Why.NOT_RUNNING, f"its job was stopped{said}")
        case JobState.FAILED:
            reason = Reason(Why.FAILED, f"its job failed{': ' + live.detail if live.detail else ''}")
        case JobState.STALE:
            why = "its process on this machine is gone" if live.gone else "it has reported nothing for too long"
            reason = Reason(Why.STALE, f"its last status says running, but {why}")
        case _:
            assert_never(live.state)
    # No job runs, so the reader has no former definition to compare with: the start names what matters of its own.
    keeping = (f"flow {flow['name']}: same offsets on both sides" for flow in fields["flows"] if kept_before(flow))
    deployment: list[str] = []
    if settings := mirror.deployment.settings():
        deployment.append(f"on {mirror.master} with {', '.join(f'{key} {value}' for key, value in settings.items())}")
    because = (*_flows(fields), *deployment, *_record_work(fields, {}), *keeping)
    return Findings(changes=(StartMirror(mirror.name, fingerprint, reason, because, edits),))


def _edits(before: Mapping[str, Any], fields: Handover) -> Iterable[FlowEdit]:
    """Effects of the restart on records of each flow and on observers, compared with the running job's hand-over."""
    yield from mirror_edits(before, fields)
    old, _ = flows_before(before, fields)
    new = {flow["name"]: flow for flow in fields["flows"]}
    for name, flow in new.items():
        if was := old.get(name):
            yield from flow_edits(was, flow)
    for name in sorted(old.keys() - new.keys()):
        why = "it is not copied any more; what its source deletes until it comes back is missing on the target for good"
        yield FlowEdit(name, "flow", f"flow {name} is no longer copied", why, Risk.MEDIUM)


def _flows(fields: Handover) -> tuple[str, ...]:
    return tuple(
        f"flow {flow['name']}: {flow['source']['name']} to {flow['target']['name']}" for flow in fields["flows"]
    )


def _why(live: LiveMirror, fields: Handover, routing: Routing, before: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Which flow and field decided, and which topics each flow gains and loses."""
    if before is not None:
        earlier, _ = flows_before(before, fields)
        topics = _impact(earlier, fields, routing)
        return (*explain_difference(before, fields), *topics, *_record_work(fields, earlier))
    # Without the former hand-over only fingerprints are left: they say that a flow changed, and not in which field.
    new = {flow["name"]: flow["fingerprint"] for flow in fields["flows"]}
    renamed = {
        flow["name"]: state_of(flow)
        for flow in fields["flows"]
        if flow["name"] not in live.flows and state_of(flow) in live.flows
    }
    lines = [f"flow {name}: renamed from {old}; {KEEPS}" for name, old in sorted(renamed.items())]
    lines += [f"flow {name}: added" for name in sorted(new.keys() - live.flows.keys() - renamed.keys())]
    lines += [f"flow {name}: removed" for name in sorted(live.flows.keys() - new.keys() - {*renamed.values()})]
    for name in sorted(new.keys() & live.flows.keys()):
        if (old := live.flows[name].fingerprint) != new[name]:
            lines.append(f"flow {name}: changed, fingerprint {old} -> {new[name]}")
    if not lines and live.flows:
        lines.append("no flow changed; parallelism, intervals, metrics, channel, deployment, master or spark_conf did")
    return tuple(lines)


def _impact(old: Mapping[str, Mapping[str, Any]], fields: Handover, routing: Routing) -> Iterable[str]:
    """``old``: former flows by their names in ``fields``."""
    new = {flow["name"]: flow for flow in fields["flows"]}
    for name in sorted(old.keys() | new.keys()):
        was, now = _travelling(old.get(name), routing), _travelling(new.get(name), routing)
        if gained := sorted(now - was):
            yield f"flow {name}: now also mirrors {_listed(gained)}"
        if lost := sorted(was - now):
            yield f"flow {name}: no longer mirrors {_listed(lost)}; what was copied stays"
    # Topics that another flow to the same target copied until now: positions belong to a flow and do not move.
    for name, flow in sorted(new.items()):
        arriving = _travelling(flow, routing) - _travelling(old.get(name), routing)
        for other, left in sorted(old.items()):
            same = other != name and all(left[key]["name"] == flow[key]["name"] for key in ("source", "target"))
            if same and left["naming"] == flow["naming"] and (topics := sorted(arriving & _travelling(left, routing))):
                yield (
                    f"flow {name}: waits with {_listed(topics)} until it takes over the positions of flow {other}, "
                    f"which copied that until now: reconciler mirror seek ENV {name} --topic T --from-flow {other}"
                )


def _record_work(fields: Handover, before: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """Notes on flows that now decompress batches for record work."""
    for flow in fields["flows"]:
        asked, was = _asked(flow), _asked(before.get(flow["name"], {}))
        if asked and not was:
            yield f"flow {flow['name']}: record work ({', '.join(asked)}) opens its batches: {COST}"
        elif was and not asked:
            yield f"flow {flow['name']}: batches travel whole again"


def _asked(flow: Mapping[str, Any]) -> list[str]:
    return [word for word in ("where", "headers", "provenance") if word in flow]


def _travelling(flow: Mapping[str, Any] | None, routing: Routing) -> set[str]:
    """Source topics that the flow of a hand-over carries; empty without one."""
    if flow is None:
        return set()
    source, target, naming = flow["source"]["name"], flow["target"]["name"], flow["naming"]
    mirrormaker = flow.get("mirrormaker_topics", {})
    try:
        chosen = make_selector(
            flow["topics"],
            flow["exclude_topics"],
            naming["policy"],
            naming["separator"],
            source,
            target,
            heartbeats=bool(mirrormaker.get("heartbeats_ms")),
            internal_separator=mirrormaker.get("separator"),
        )
    except ValueError:  # an old hand-over may name a removed policy class
        return set()
    return {str(TopicRef(source, name)) for name in routing.prospects.names(source) if chosen.why_not(name) is None}


def _listed(names: list[str]) -> str:
    return f"{counted(len(names), 'topic')}: {first_of(names)}"
