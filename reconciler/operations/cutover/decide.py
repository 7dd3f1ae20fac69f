"""Decides a cut-over from a survey: its fence, its checks and steps, the estimated stop of writes, and differences from
an earlier plan. Pure functions."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.errors import Moved, Unknown
from reconciler.model.principals import AclBinding, Permission, ResourceType, Unsupported
from reconciler.model.reports.cutover import (
    CutoverPlan,
    CutoverSettings,
    CutoverStep,
    FenceChosen,
    GroupSeen,
    MemberSeen,
    PlannedStep,
    TopicSeen,
)
from reconciler.model.reports.failover import ConsumerMove, FailoverCheck, GroupMove, Key, Level
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState
from reconciler.resources.acls.derive_from_flows import denial, write_denials
from reconciler.text import counted, first_of, in_shell, time_words, total

ROLLBACK = "reconciler cutover rollback ENV --plan FILE"
PAUSE_TYPICAL_S, OFFSETS_TYPICAL_S, LOOK_S = 3.0, 2.0, 1.0
"""Typical times for the estimate: a job reports every two seconds, and writes its offset map a second after a
commit."""
CONNECT = "connect-"
"""Prefix of the consumer groups of Kafka Connect's sink connectors."""
_MUST_RUN = {
    "job": "Start it: reconciler mirror start ENV FLOW",
    "paused": "Let it copy again: reconciler mirror resume ENV FLOW",
    "condition": "Its runbook: reconciler status ENV",
    "read-only-unknown": "",
}
"""Checks that are warnings for a failover and stop a cut-over, which needs a copying mirror -> what to do, for a check
that does not say it."""
_NOT_COPIED = "Let the mirror copy it first: reconciler status ENV says what keeps it from that"
_EXPECTED = frozenset({"members-origin", "transactions", "fence"})
"""Warnings of a failover that are no concern here: a step of the cut-over takes care of each."""


def fence_of(
    topics: Collection[str],
    rules: frozenset[AclBinding] | Unsupported | Unknown,
    cluster: str,
    writers: Mapping[str, str],
    mirrors: Collection[str],
) -> FenceChosen:
    """``writers``: topics that a flow writes on the origin -> the flow; ``mirrors``: Kafka principals of these
    flows."""
    if isinstance(rules, Unsupported):
        return FenceChosen(obstacle=f"{cluster}: {rules.why}, so nothing can keep producers from writing there")
    if isinstance(rules, Unknown):
        return FenceChosen(obstacle=rules.with_todo)
    # In Kafka a deny rule wins over every allow rule, so denying ``User:*`` would stop mirrors, too. On topics that a
    # mirror writes, the fence therefore denies each producer that an allow rule names.
    everyone = frozenset(denial(topic) for topic in topics if topic not in writers)
    if not writers:
        return FenceChosen(everyone)
    head = f"flow {', '.join(sorted({*writers.values()}))} writes into {first_of(sorted(writers))} on {cluster}"
    if not mirrors:
        why = f"{head}, as a principal whose name is not known here, so that it cannot be spared. Add to access: "
        return FenceChosen(obstacle=f'{why}{{role: mirror, principal: "User:..."}}')
    denials = write_denials(writers, rules, mirrors)
    for rule in denials.open:
        why = f"{head}, and the rule {rule} names neither it nor the producers: a fence would stop both"
        return FenceChosen(obstacle=why)
    if not (denied := everyone | frozenset(denials.because)):
        spared = " and ".join(sorted(mirrors))
        why = f"{head}, and no rule lets anyone but {spared} write there, so that no producer can be named"
        return FenceChosen(obstacle=f"{why}: those that do log in as it does, are super users, or need no rule")
    return FenceChosen(denied, tuple(sorted(mirrors)))


def group_seen(move: GroupMove, members: Sequence[MemberSeen]) -> GroupSeen:
    """``move``: with ``after`` as planned, or as done."""
    again, missed = (total([getattr(each, which) for each in move.offsets]) for which in ("again", "missed"))
    exact = all(offset.translated.exact for offset in move.offsets)
    kind, there = move.origin.kind, move.destination.members
    return GroupSeen(move.group, kind, tuple(members), len(move.offsets), again, missed, exact, there, move.note)


def estimated_stop_s(topics: Sequence[TopicSeen], settings: CutoverSettings) -> float | None:
    """From the first refused write until clients may write at the destination."""
    left = total([topic.left for topic in topics])
    if left is None:
        return None
    rate, copied = sum(topic.rate for topic in topics), sum(topic.copy_rate for topic in topics)
    drain_s = 0.0
    if left > 2 * rate + 100:  # more than records in flight
        if copied <= 0:
            return None
        drain_s = left / copied
    return settings.hold_s + max(LOOK_S, drain_s) + PAUSE_TYPICAL_S + OFFSETS_TYPICAL_S


def of_failover(checks: Iterable[FailoverCheck], flow: str, *, some: bool) -> Iterator[FailoverCheck]:
    """Checks of a failover with the levels of a cut-over, which needs a copying mirror. ``some``: only some topics
    move; the cut-over then lifts no pause of the whole flow, under which nothing would be drained."""
    for check in checks:
        if check.code in _MUST_RUN:
            yield replace(check, level=Level.STOPS, todo=check.todo or _MUST_RUN[check.code].replace("FLOW", flow))
        elif check.code == "lag" and (check.level is Level.STOPS or (some and check.level is Level.WARNS)):
            yield replace(check, level=Level.STOPS, todo=_NOT_COPIED)
        elif check.code not in _EXPECTED or check.level is Level.STOPS:
            yield check


def checks_of_fence(
    fence: FenceChosen, move: ConsumerMove, rules: frozenset[AclBinding] | Unsupported | Unknown, topics: Sequence[str]
) -> Iterator[FailoverCheck]:
    """Limits of a fence: it does not bind super users, whom no client can list; and on a topic without rules, its deny
    rule ends all access by allow.everyone.if.no.acl.found, also for readers."""
    if fence.obstacle:
        todo = "Stop the producers yourself once cutover apply asks for it; it is still verified that they are off"
        yield FailoverCheck("fence", Level.WARNS, f"producers are not fenced: {fence.obstacle}", todo)
        return
    text = f"super users of {move.origin} are not bound by rules, and no client can ask who they are; neither is who "
    text += f"logs in as {' or '.join(fence.spared)}" if fence.spared else "writes elsewhere"
    todo = "A producer that continues is found, and named by its id, when the fence is verified; nothing has moved then"
    yield FailoverCheck("fence-limits", Level.WARNS, text, todo)
    # Only where rules could be read: the advice would otherwise name each topic of the flow.
    if isinstance(rules, frozenset):
        there = [rule for rule in rules if rule.resource is ResourceType.TOPIC and rule.permission is Permission.ALLOW]
        bare = sorted(topic for topic in topics if not any(rule.covers_name(topic) for rule in there))
        if bare:
            text = f"no rule allows anything on {first_of(bare)}: where {move.origin} has "
            text += "allow.everyone.if.no.acl.found, a deny rule ends that for reading, too"
            todo = "Allow readers and the mirror by rules of their own first, if they are no super users"
            yield FailoverCheck("bare-topics", Level.WARNS, text, todo)


def checks_of_probe(
    topics: Mapping[str, int], allowed: Collection[Key], who: str, cluster: str
) -> Iterator[FailoverCheck]:
    """``allowed``: partitions that the probe's principal, ``who``, may write before the fence exists."""
    vain = [topic for topic, count in sorted(topics.items()) if not all((topic, n) in allowed for n in range(count))]
    if vain:
        text = f"{who}, the probe of {cluster}, may not write {first_of(vain)} now either, so that its refusal "
        text += "proves nothing about the fence there"
        todo = f"Let clusters.{cluster}.principals.probe log in as one of the producers"
        yield FailoverCheck("probe", Level.WARNS, text, todo)


def checks_of_offsets(move: ConsumerMove) -> Iterator[FailoverCheck]:
    """Checks for translated offsets, of a flow that does not keep offsets."""
    text = "positions that applications keep outside of Kafka (databases, checkpoints of Flink or Spark) are of "
    text += f"{move.origin}: the same records have other offsets on {move.destination}"
    todo = f"Let them move to where offsets translate says, with --topic, --partition and --offset for {move.flow}"
    yield FailoverCheck("outside", Level.WARNS, text, todo)


def checks_of_names(absent: Sequence[str], move: ConsumerMove) -> Iterator[FailoverCheck]:
    """``absent``: requested topics that the flow does not carry."""
    if absent:
        text = f"{move.flow} does not carry {first_of(absent)}, chosen by name: "
        text += f"{'it stays' if len(absent) == 1 else 'they stay'} where {'it is' if len(absent) == 1 else 'they are'}"
        yield FailoverCheck("names", Level.WARNS, text, f"Check with reconciler explain ENV {absent[0]}")


def checks_of_topics(
    topics: Sequence[TopicSeen], there: Collection[str], shared: Sequence[str], move: ConsumerMove
) -> Iterator[FailoverCheck]:
    """``there``: all topics of the destination."""
    if not topics:
        text = f"no topic of {move.flow} is chosen"
        yield FailoverCheck("topics", Level.WARNS, text, "Check with reconciler explain ENV TOPIC, or widen --topics")
    # An open transaction holds back the last stable offset, so the mirror cannot reach the end before it is decided.
    open_ones = [each for topic in topics for each in topic.producers if each.open_from >= 0]
    if open_ones:
        words = [f"{each.words} in {each.topic}-{each.partition} from {each.open_from:,} on" for each in open_ones]
        text = f"{counted(len(open_ones), 'transaction')} open on {move.origin}: {first_of(words)}"
        todo = "They are waited for; --abort-transactions aborts those that do not end in time"
        yield FailoverCheck("transactions", Level.WARNS, text, todo)
    # A producer that keeps its topic's name writes at the destination to a topic of that name, not to the renamed copy.
    lacking = sorted(topic.topic for topic in topics if topic.topic != topic.copy and topic.topic not in there)
    if lacking:
        text = f"{move.destination} has no topic {first_of(lacking)}: producers that keep the name write to it"
        todo = "Declare it there and apply, unless producers get another topic's name"
        yield FailoverCheck("producer-topics", Level.WARNS, text, todo)
    if shared:
        text = f"other flows write {first_of(sorted(shared))} on {move.destination}, too: whether a record there "
        text += "is a client's cannot be determined, so that after the switch only a failback leads back"
        yield FailoverCheck("shared-topics", Level.WARNS, text)


def checks_of_others(
    filled: Mapping[str, str], starved: Mapping[str, Sequence[str]], move: ConsumerMove
) -> Iterator[FailoverCheck]:
    """``filled``: topic of the origin -> the flow that fills it from a third cluster; ``starved``: flow from the origin
    -> its topics that would miss records which clients write at the destination."""
    if filled:
        text = f"flow {', '.join(sorted({*filled.values()}))} brings {first_of(sorted(filled))} to {move.origin}"
        text += f": what it brings once {move.flow} is paused does not reach {move.destination}"
        todo = f"Leave these topics out (--topics), unless a flow brings them to {move.destination} as well"
        yield FailoverCheck("filled-topics", Level.WARNS, text, todo)
    for flow, topics in starved.items():
        text = f"flow {flow} copies {first_of(sorted(topics))} from {move.origin}, too: what clients write on "
        text += f"{move.destination} does not reach its target"
        yield FailoverCheck("other-flows", Level.WARNS, text, f"Let a flow carry it there from {move.destination}")


def checks_of_left_out(groups: Mapping[str, str], move: ConsumerMove) -> Iterator[FailoverCheck]:
    """``groups``: groups that read the topics but do not move -> why."""
    if not groups:
        return
    connect = {name: "a connector of Kafka Connect, " if name.startswith(CONNECT) else "" for name in groups}
    words = [f"{name} ({connect[name]}{why})" for name, why in groups.items()]
    text = f"{counted(len(groups), 'group')} read these topics and {'is' if len(groups) == 1 else 'are'} not moved: "
    todo = f"Take them into groups of {move.flow}, or set them on {move.destination} (offsets translate says where). A "
    todo += "connector gets its offsets from Kafka Connect's REST API"
    yield FailoverCheck("left-out", Level.WARNS, text + first_of(words), todo)


def in_the_way(plan: CutoverPlan, journal: CutoverJournal, back: Collection[str]) -> str:
    """Words about the unfinished cut-over that moves the same topics or groups; empty if none does. ``back``: flows
    from the destination to the origin: their cut-over moves the same clients the other way."""
    names = plan.names if journal.origin == plan.origin else frozenset[str]()
    if journal.flow in back:
        names = frozenset(name for topic in plan.topics for name in (topic.topic, topic.copy))
    both = sorted(names.intersection(journal.topics))
    if journal.state is not CutoverState.UNDER_WAY or not (both or journal.flow == plan.flow):
        return ""
    subject = f"flow {plan.flow}" if journal.flow == plan.flow else first_of(both)
    text = f"a cut-over of {journal.flow} by {journal.who} is under way and moves {subject}: it has come to step "
    return f"{text}{journal.begun or 'none'}, by plan {journal.plan[:12]}"


def stands_in(plan: CutoverPlan, journal: CutoverJournal) -> bool:
    """Whether the plan may continue the cut-over of another plan."""
    chosen = (plan.flow, plan.topics_expression, plan.groups_expression, tuple(sorted(plan.names)))
    its = (journal.flow, journal.topics_expression, journal.groups_expression, journal.topics)
    return its == chosen and journal.state is CutoverState.UNDER_WAY


def ended(journal: CutoverJournal) -> str:
    """How to finish that cut-over, even if its plan file is lost."""
    chosen = {"--topics": journal.topics_expression, "--groups": journal.groups_expression}
    more = "".join(f" {option} {in_shell(text)}" for option, text in chosen.items() if text)
    text = f"End it with cutover apply and its plan file, or take it back: {ROLLBACK}. A new plan of the same choice "
    return f"{text}does for a lost one: reconciler cutover plan ENV {journal.flow}{more} --out FILE"


def steps_of(plan: CutoverPlan) -> Iterator[PlannedStep]:
    """Steps of a plan, each with its way back. ``plan``: without steps yet."""
    origin, destination, flow, its = plan.origin, plan.destination, plan.flow, plan.settings
    if CutoverStep.BEFORE in plan.hooks:
        yield PlannedStep(CutoverStep.BEFORE, plan.hooks[CutoverStep.BEFORE], "nothing: what the hook did stays")
    # The way back changes twice. From the pause on, a rollback must resume the flow; from the switch on, it is possible
    # only while clients have written nothing at the destination.
    unfenced = "cutover rollback: takes the rules back, producers continue"
    resumed = f"cutover rollback: {flow} copies again, the rules are taken back"
    if plan.fence.obstacle:
        text = f"no fence: {plan.fence.obstacle}"
    elif plan.fence.spared:
        text = f"{counted(len(plan.fence.rules), 'deny rule')} on {origin}, by principal; those of mirrors continue: "
        text += ", ".join(plan.fence.spared)
    else:
        text = f"deny everyone to write {counted(len(plan.topics), 'topic')} on {origin}"
    yield PlannedStep(CutoverStep.FENCE, text, unfenced)
    text = f"no partition ends further, no producer writes and no transaction is open for {its.hold_s:g} s"
    text += f", and a write as {plan.probe} is refused" if plan.probe else ""
    yield PlannedStep(CutoverStep.VERIFY_FENCE, f"{text}, within {its.within_s:g} s", unfenced)
    text = f"wait until {flow} has copied up to the last offset, at most {its.within_s:g} s"
    yield PlannedStep(CutoverStep.DRAIN, text, unfenced)
    scope = flow if plan.whole else f"{counted(len(plan.topics), 'topic')} of {flow}"
    yield PlannedStep(CutoverStep.PAUSE, f"pause {scope}: {destination} takes writes", resumed)
    text = f"let groups with members read the rest, at most {its.catch_up_s:g} s; set the positions of "
    text += f"{counted(len(plan.groups), 'group')} on {destination}"
    yield PlannedStep(CutoverStep.GROUPS, text, f"{resumed}; positions on {destination} stay, as sync keeps them")
    if plan.lifts:
        text = f"take back the deny rules that keep the copies on {destination} read-only"
        yield PlannedStep(CutoverStep.LIFT, text, f"{resumed}; the copies are denied to others again")
    proved = f"cutover rollback while {destination} has no record of its own; after that failback"
    text = plan.hooks.get(CutoverStep.SWITCH, "no hook: you restart them")
    yield PlannedStep(CutoverStep.SWITCH, f"clients get the address of {destination}: {text}", proved)
    text = f"wait until clients are seen on {destination}, at most {time_words(its.clients_s)}"
    yield PlannedStep(CutoverStep.CLIENTS, text, proved)
    yield PlannedStep(CutoverStep.TAIL, "compare the last records of every partition on both sides", proved)
    if plan.started:
        yield PlannedStep(CutoverStep.START, f"start {plan.started}, the way back", proved)
    if its.opens and plan.fence.rules:
        yield PlannedStep(CutoverStep.UNFENCE, f"take back the rules: {origin} takes writes again", proved)
    if CutoverStep.AFTER in plan.hooks:
        yield PlannedStep(CutoverStep.AFTER, plan.hooks[CutoverStep.AFTER], "nothing: what the hook did stays")
    if plan.gates is not None:
        text = f"watch the gates until they have held for {time_words(its.soak_s)}: nothing else of {flow} moves before"
        yield PlannedStep(CutoverStep.SOAK, text, proved)


def moved_since(plan: CutoverPlan, now: CutoverPlan) -> Iterator[Moved]:
    """Differences between two plans that make the first one stale; lags, rates, members and positions may differ."""
    # What its reader agreed to must still hold. Figures that move by themselves would make each plan stale within
    # seconds.
    sides = (plan, now)
    yield from _differing("cluster", *(side.clusters for side in sides))
    if plan.flow_digest != now.flow_digest:
        yield Moved(f"flow {plan.flow}", plan.flow_digest[:12], now.flow_digest[:12])
    if plan.started != now.started:
        yield Moved("flow back", plan.started or "none", now.started or "none")
    kinds = ({group.group: group.kind for group in side.groups} | dict(side.unsupported) for side in sides)
    topics = (planned_topics(side) for side in sides)
    yield from _differing("topic", *topics)
    yield from _differing("group", *kinds)
    yield from _differing("hook", plan.hooks, now.hooks)
    if plan.lifts != now.lifts:
        kept = ("read-only" if side.lifts else "writable" for side in sides)
        yield Moved("copies", *kept)
    if plan.fence != now.fence:
        fences = (side.fence for side in sides)
        yield Moved(
            "fence", *(each.obstacle or ", ".join(sorted(map(str, each.rules))) or "no rule" for each in fences)
        )


def planned_topics(plan: CutoverPlan) -> dict[str, str]:
    """Topic -> ``topic_words`` as it was planned."""
    return {topic.topic: topic_words(topic.partitions, topic.topic_id) for topic in plan.topics}


def topic_words(partitions: int, topic_id: str) -> str:
    """Words that two looks are compared by: a recreated topic has another id, and its offsets mean other records."""
    return f"{counted(partitions, 'partition')} id {topic_id or '?'}"


def _differing(kind: str, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Moved]:
    for name in sorted(before.keys() | now.keys()):
        was, its = before.get(name, "absent"), now.get(name, "absent")
        if was != its:
            yield Moved(f"{kind} {name}", was, its)


def within(move: GroupMove, topics: Collection[str]) -> GroupMove:
    """The move reduced to offsets on these topics of the origin."""
    return replace(move, offsets=tuple(offset for offset in move.offsets if offset.origin[0] in topics))
