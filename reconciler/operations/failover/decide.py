"""Decides a failover or failback: its flows, and the checks that stop it or warn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState
from reconciler.model.options import KeepDiverged
from reconciler.model.reports.failover import (
    ConsumerMove,
    FailoverCheck,
    FailoverFacts,
    Leg,
    Level,
    PartedPartition,
    PartitionState,
    Way,
    diverged_topics,
    not_compared,
    worst_first,
)
from reconciler.replication.groups import idle
from reconciler.resources.flows.routes import declared_flow
from reconciler.resources.mirrors.pause_and_seek import FAILOVER, failed_over_to
from reconciler.text import counted, first_of, moment, time_words

_STARTED = "; started for it: "
_RUNS = (JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class DivergedChoice:
    """What a failback does with records of the old source alone. ``file``: absolute, for TO_FILE."""

    keep: KeepDiverged
    file: str = ""


@dataclass(frozen=True, slots=True)
class FailoverRequest:
    """What the user demands and accepts of a failover or failback."""

    unplanned: bool = False
    """Continue although the origin does not answer."""
    accept_loss: bool = False
    """Continue although records of the origin are not copied."""
    drain_s: float = 60.0
    """How long the flow may take to reach the origin's present end."""
    fence: bool = False
    """Deny all principals to write the flow's topics on the origin from then on."""
    diverged: DivergedChoice | None = None
    """Make both sides the same first."""


def pause_reason(move: ConsumerMove, starts: str) -> str:
    """The reason of a failover's pause, read by people and by the failback. ``starts``: the flow that this failover
    starts."""
    return f"{FAILOVER}{move.destination}{_STARTED + starts if starts else ''}"


def ours(reason: str) -> bool:
    """Whether this is the reason of a failover's pause."""
    return bool(failed_over_to(reason))


def started_by(reason: str, flow: str) -> bool:
    """Whether the failover that paused with this reason started ``flow``."""
    return ours(reason) and reason.endswith(f"{_STARTED}{flow}")


def move_of(topology: Topology, way: Way, name: str) -> ConsumerMove:
    """The move along a flow, in one way. Raises ReconcilerError for an undeclared flow."""
    flow = declared_flow(topology, name, "There is nothing to move consumers along.")

    # The way back is the only flow that carries the same topics in the other direction.
    back, note = "", ""
    others = [o for o in topology.flows.values() if (o.source, o.target) == (flow.target, flow.source)]
    if len(others) > 1:
        others = [o for o in others if set(o.topics) & set(flow.topics)] or others
    if len(others) == 1:
        back = others[0].name
    elif others:
        names = ", ".join(o.name for o in others)
        note = f"several flows go from {flow.target} to {flow.source} ({names}): none is taken for the way back"
    else:
        note = f"no flow is declared from {flow.target} to {flow.source}: what is written on {flow.target} stays there"

    # If more than two clusters write the same topics, a group also has offsets that these two maps do not cover.
    both = {flow.source, flow.target}
    into = [other for other in topology.flows.values() if other.provenance is not None and other.target in both]
    third = sorted({other.source for other in into} - both) if flow.provenance is not None else []
    if third and not note:
        note = f"{', '.join(third)} may write to the same topics: a group may miss or read again records from there"

    legs = (Leg(flow.name, way is Way.FAILOVER), *([Leg(back, way is Way.FAILBACK)] if back else []))
    match way:
        case Way.FAILOVER:
            return ConsumerMove(way, name, flow.source, flow.target, legs, drained=name, started=back, note=note)
        case Way.FAILBACK:
            return ConsumerMove(way, name, flow.target, flow.source, legs, drained=back, started=name, note=note)


def checks_of(facts: FailoverFacts, request: FailoverRequest) -> tuple[FailoverCheck, ...]:
    """All findings, the worst first."""
    made = (_clusters(facts, request), _flow(facts, request), same_offsets_checks(facts, request))
    return worst_first(chain(*made, _groups(facts), _copies(facts), facts.hidden, facts.denied))


def _warning(code: str, text: str, todo: str = "") -> FailoverCheck:
    return FailoverCheck(code, Level.WARNS, text, todo)


def _clusters(facts: FailoverFacts, request: FailoverRequest) -> Iterator[FailoverCheck]:
    """Whether the origin answers, whether a way back is declared, and what keeps producers off."""
    move = facts.move
    if facts.reachable:
        text = f"{move.origin} answers: offsets are translated exactly, records are drained"
        yield FailoverCheck("origin", Level.FINE, text)
    else:
        level = Level.WARNS if request.unplanned else Level.STOPS
        text = f"{move.origin} does not answer, groups are set from their last checkpoints: {facts.unreachable_because}"
        todo = f"If {move.origin} is lost, pass --unplanned. If only this machine cannot reach it, run this elsewhere."
        yield FailoverCheck("origin", level, text, "" if request.unplanned else todo)
    if move.note:
        yield _warning("way-back", move.note)

    # Producers that keep running write to the origin, where no consumer of the group reads any more.
    if facts.fence.obstacle and request.fence:
        todo = "Stop the producers yourself, and leave --fence away"
        yield FailoverCheck("fence", Level.STOPS, facts.fence.obstacle, todo)
    elif facts.fence.obstacle:
        yield _warning("fence", f"whether a failover keeps producers off is not known: {facts.fence.obstacle}")
    elif move.way is Way.FAILOVER and not facts.reachable:
        text = f"producers that still have the address of {move.origin} write there again once it is back, unseen by "
        text += f"consumers on {move.destination} until the failback"
        todo = f"Before they do, stop them; or, as soon as it answers: reconciler failover ENV {move.flow} --fence"
        yield _warning("fence", text, todo)


def _flow(facts: FailoverFacts, request: FailoverRequest) -> Iterator[FailoverCheck]:
    """The drained flow: whether it copies, what is left to copy, and, without the origin, the bounds of what may be
    lost."""
    flow, move = facts.flow, facts.move
    if flow is None:
        return
    name = move.drained
    if isinstance(flow.partitions, Unknown):
        yield FailoverCheck("positions", Level.STOPS, f"positions of {name} are not known: {flow.partitions.error}")
    mine = ours(flow.pause_reason)
    runs = flow.job in _RUNS
    if flow.paused_by and not mine:
        why = f": {flow.pause_reason}" if flow.pause_reason else ""
        yield _warning("paused", f"{name} was paused by {flow.paused_by}{why}")
    elif flow.unread:
        todo = (
            f"Before {move.origin} is back, stop its mirror where it runs: reconciler mirror stop ENV {name}. Or, as "
        )
        todo += f"soon as it answers: reconciler mirror pause ENV {name}"
        text = f"{name} cannot be paused: {flow.unread}. Once it answers, records left there are copied to "
        yield _warning("pause", f"{text}{move.destination}, between what is written there from now on", todo)
    elif not runs and not mine:
        yield _warning("job", f"the mirror of {name} is {flow.job}")
    for condition, todo in flow.conditions:
        yield _warning("condition", f"{name}: {condition}", todo)
    # Uncopied records stop the move only if no job will copy them: a running flow is drained before groups move.
    if facts.reachable:
        if flow.undecided:
            text = f"open transactions on {move.origin} hold back {counted(flow.undecided, 'offset')} until they end"
            yield _warning("transactions", text, "End or abort them first (kafka-transactions.sh find-hanging)")
        if flow.left and (flow.paused_by or not runs):
            level = Level.WARNS if request.accept_loss or mine else Level.STOPS
            text = f"{flow.left} offsets on {move.origin} are not copied and nothing copies them: {name} does not run"
            todo = f"Let {name} run until it has caught up, or pass --accept-loss to leave them on {move.origin}"
            yield FailoverCheck("lag", level, text, "" if level is Level.WARNS else todo)
        elif flow.left is not None:
            yield FailoverCheck("lag", Level.FINE, f"{name} has {flow.left} offsets to copy")
        elif not isinstance(flow.partitions, Unknown):
            level = Level.WARNS if request.accept_loss or mine else Level.STOPS
            text = (
                f"whether {name} has copied {unread_ends(flow.partitions)} is not known: {move.origin} does not report "
            )
            todo = "Wait until their leaders answer, or pass --accept-loss to leave uncopied records behind"
            yield FailoverCheck("lag", level, f"{text}where they end", "" if level is Level.WARNS else todo)
        return

    # Without the origin its ends cannot be asked; the lag that the mirror reported last is the only bound of the loss.
    head = f"records of {move.origin} that may be lost"
    if flow.lag is None:
        why = flow.unread or "the mirror recorded no lag before the outage"
        yield _warning("loss", f"{head}: unknown; {why}")
    else:
        at = moment(flow.lag.at_ms, "%H:%M:%S UTC on %Y-%m-%d")
        since = f"then {time_words(flow.lag.since_s)} of writes unknown"
        yield _warning("loss", f"{head}: at most {counted(flow.lag.records, 'record')} as of {at}, {since}")
        worst = [f"{each.topic}-{each.partition} {each.records_lag:,}" for each in flow.lag.worst_partitions]
        if worst:
            yield _warning("loss", f"most of them in {first_of(worst)}")
        if flow.lag.unknown_partitions:
            text = f"of {counted(flow.lag.unknown_partitions, 'more partition')} of {name} it was not known then"
            yield _warning("loss", f"{text}: all that they hold may be lost; the conditions of the flow name them")

    # A group may have read on after its last checkpoint, at most its lag. It reads these records twice and loses none.
    if flow.groups_read_ms is None:
        text = f"when the mirror read groups of {move.origin} last is not known: what they read since is read again"
    else:
        at = moment(flow.groups_read_ms)
        text = f"groups of {move.origin} were read last at {at}: what they have read since then they read again"
    yield _warning("checkpoints", text)


def _groups(facts: FailoverFacts) -> Iterator[FailoverCheck]:
    """Groups that are read on either side now, offsets that cannot be known, and groups that cannot move."""
    move = facts.move
    for group_move in facts.groups:
        if group_move.origin.members:
            members = f"group {group_move.group} has {group_move.origin.members} members on {move.origin}"
            text = f"{members}: what they read from now on is read again"
            yield _warning("members-origin", text, "Stop them first for exactly no record read again")
        if not idle(group_move.destination.state):
            text = f"group {group_move.group} has members on {move.destination}: its offsets are left alone"
            yield _warning("members-destination", text, "Stop them and run this again to have them set")

    # The way back keeps its offset map on the origin: without it, offsets on copies there cannot be translated.
    if facts.unmapped is not None:
        topics, here = first_of(facts.unmapped.topics), move.destination
        text = f"how far groups had read copies of {topics} on {move.origin} is not known without it: what they read "
        text += f"of {here}'s own topics continues from their offsets on {here}"
        if facts.unmapped.without:
            never = first_of(facts.unmapped.without)
            text += f", and by auto.offset.reset where they have never been: {never}"
        todo = "These records are not in the counts below. Where that matters, set a group to when it had read "
        todo += f"{here}'s records last: kafka-consumer-groups.sh --bootstrap-server {facts.unmapped.server} "
        todo += f"--group GROUP --topic {facts.unmapped.topics[0]} "
        todo += "--reset-offsets --to-datetime 2026-01-31T03:10:00.000 --execute"
        yield _warning("copies", text, todo)

    for group, why in sorted(facts.unsupported.items()):
        yield _warning("unsupported", f"group {group} {why}")
    if not facts.groups:
        yield _warning("groups", f"no group has offsets on topics of {move.flow}: no group is moved")


def _copies(facts: FailoverFacts) -> Iterator[FailoverCheck]:
    """Rules that may keep clients from writing at the destination after a failover, because this tool did not make them
    or cannot read them."""
    seen, there = facts.copies, facts.move.destination
    if facts.move.way is not Way.FAILOVER:
        return
    if seen.obstacle and seen.kept:
        text = f"which rules keep the copies on {there} read-only is not known: {seen.obstacle}"
        yield _warning("read-only-unknown", text, "Let the principal apply read them first: reconciler doctor ENV")
    if seen.kept and seen.others:
        rules = first_of(sorted(map(str, seen.others)))
        text = f"rules on {there} that copies: read_only did not make stay, and whom they deny cannot write: {rules}"
        yield _warning("read-only", text, "Where producers move there, take these rules away yourself")


def unread_ends(partitions: Sequence[PartitionState]) -> str:
    """Names of source partitions without a reported end, in words; empty if there are none."""
    return first_of([each.name for each in partitions if each.end is None])


def same_offsets_checks(facts: FailoverFacts, request: FailoverRequest) -> Iterator[FailoverCheck]:
    """Checks, for a flow that keeps offsets, whether both sides differ at a failback. ``request.accept_loss``:
    consumers move although the destination lacks records, or has other ones."""
    move = facts.move
    if not facts.same_offsets:
        return
    text = (
        f"offsets mean the same record on {move.origin} as on {move.destination}: nothing is translated, and positions "
        "that applications keep outside of Kafka (databases, checkpoints of Flink or Spark) hold there, too"
    )
    yield FailoverCheck("same-offsets", Level.FINE, text)
    # A partition that was not compared may differ. That stops a failback that would delete topics by the result of the
    # comparison; a failback that only moves consumers continues with a warning.
    rejoins = request.diverged is not None
    unknown = [each for each in facts.parted if each.unknown]
    if unknown:
        text = f"whether {counted(len(unknown), 'partition')} are the same on both sides is not known: "
        text += not_compared(unknown)
        todo = f"Compare them: reconciler verify ENV {move.flow}"
        yield FailoverCheck("parted-unknown", Level.STOPS if rejoins else Level.WARNS, text, todo)
    known, topics = [each for each in facts.parted if not each.unknown], diverged_topics(facts.parted)
    level = Level.WARNS if request.accept_loss or rejoins else Level.STOPS
    way = f"reconciler failback ENV {move.flow}"
    # Kafka cannot truncate a log at its end, so the case depends on the side with records after the common beginning.
    # Both sides: neither log can become the other. Only the failed-over side: the old source can be filled up. Only the
    # old source: the flow copies these records when it runs again.
    if apart := [each for each in known if each.source[0] in topics]:
        alone = counted(sum(each.source_records for each in apart), "record")
        text = f"both sides have records of their own in {counted(len(topics), 'topic')}; {alone} of "
        text += f"{move.destination} were never copied: {_listed(apart, move)}"
        todo = (
            f"Keep them in topics of {move.origin}: {way} --diverged to-topic. Or in a file: {way} --diverged to-file. "
        )
        todo += f"Or give them up: {way} --diverged discard. Each then fills {move.destination} from {move.origin}, "
        todo += "and says with --dry-run what it would do; --accept-loss moves consumers anyway"
        yield FailoverCheck("diverged", level, text, "" if rejoins else todo)
    if behind := [each for each in known if each.target_records and each.source[0] not in topics]:
        lacking = counted(sum(each.target_records for each in behind), "record")
        text = f"{move.destination} lacks {lacking} that were written on {move.origin} since; its logs are the "
        text += f"beginning of those there, so they can be filled up: {_listed(behind, move)}"
        todo = f"Fill it, which deletes nothing: {way} --diverged discard; or pass --accept-loss to move "
        todo += "consumers without them"
        yield FailoverCheck("not-filled", level, text, "" if rejoins else todo)
    if ahead := [each for each in known if each.source_records and each.source[0] not in topics]:
        text = f"{move.destination} has records that are not copied to {move.origin}: {_listed(ahead, move)}"
        yield FailoverCheck("not-copied", Level.WARNS, text)


def _listed(partitions: Sequence[PartedPartition], move: ConsumerMove) -> str:
    """Partitions with the counts of both sides; at a failback the destination is the flow's source."""
    each_words = [
        f"{each.name} from {each.at:,} on ({each.source_records:,} on {move.destination} up to "
        f"{each.source_end:,}, {each.target_records:,} on {move.origin} up to {each.target_end:,})"
        for each in partitions
    ]
    return first_of(each_words)
