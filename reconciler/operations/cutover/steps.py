"""The steps of a cut-over. Each checks first what is left to do, so that the next run continues a killed one.

Until *switch* begins, each run starts from the first step. From *switch* on, clients may write at the destination, so
no step before it is repeated.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from reconciler.engine.rollout.run import POLL_SECONDS, WAITING_SECONDS, RolloutOptions, Settling, SoakVerdict, looked
from reconciler.errors import ReconcilerError
from reconciler.model.environment.rollout import Gates
from reconciler.model.principals import ANYONE
from reconciler.model.reports.cutover import CutoverPlan, CutoverReport, CutoverStep
from reconciler.model.reports.failover import GroupMove, Key, PartitionState, StepResult
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState, key_of, place
from reconciler.operations.cutover.decide import ROLLBACK, group_seen, planned_topics
from reconciler.operations.cutover.quiet import LOOK_S, FenceWatch
from reconciler.operations.cutover.world import CutoverWorld, StepEnd, in_order, step_end, unfenced, unkept
from reconciler.operations.failover.group_offsets import otherwise
from reconciler.text import counted, first_of, time_words

DONE, ALREADY, SKIPPED, FAILED = StepResult.DONE, StepResult.ALREADY, StepResult.SKIPPED, StepResult.FAILED
_HOOKS = {CutoverStep.BEFORE, CutoverStep.SWITCH, CutoverStep.AFTER}
_LOOKS = {CutoverStep.VERIFY_FENCE, CutoverStep.DRAIN}
_BEFORE_SWITCH = tuple(CutoverStep)[: tuple(CutoverStep).index(CutoverStep.SWITCH)]


class CutoverRun:
    """One run of one plan. ``journal``: of an earlier run, or a new one."""

    def __init__(
        self, world: CutoverWorld, plan: CutoverPlan, journal: CutoverJournal, now_ms: Callable[[], int]
    ) -> None:
        self.world, self.plan, self.journal = world, plan, journal
        self._now_ms = now_ms
        self._groups: tuple[GroupMove, ...] = ()
        self._findings: dict[str, None] = {}
        self._seen_after_s: float | None = None
        self._untouched = not journal.begun

    def run(self) -> CutoverReport:
        """Takes every step and audits it. A failed step ends the run, and the next run continues there."""
        began = self.world.now()
        steps = in_order(self.world, self._acts(), self._ended)
        if steps[-1].result is not FAILED:
            try:
                self._keep(replace(self.journal, state=CutoverState.DONE))
            except ReconcilerError as error:
                self._findings[unkept(error, "finds each step done")] = None
        groups = tuple(group_seen(move, ()) for move in self._groups)
        seconds = self.world.now() - began
        findings = tuple(self._findings)
        # Writes are refused from the fence on. The journal keeps its time, so a later run measures the stop from there.
        stopped_s = self._seen_after_s if self.journal.fenced_ms else None
        if self.journal.fenced_ms and stopped_s is None:
            stopped_s = max(0.0, (self._now_ms() - self.journal.fenced_ms) / 1000)
        return CutoverReport("apply", self.plan, steps, findings, groups, stopped_s, seconds, untouched=self._untouched)

    def _acts(self) -> Iterator[tuple[CutoverStep, Callable[[], StepEnd]]]:
        """Steps in the order that keeps data safe. The fence is verified before the flow drains, so the goal cannot
        move; the flow is paused before groups are set, so that its own sync of offsets does not move them again; only
        then may clients write at the destination. The way back starts after clients are seen there: until then a
        rollback loses nothing."""
        yield CutoverStep.BEFORE, partial(self._hook, CutoverStep.BEFORE)
        yield CutoverStep.FENCE, self._fence
        yield CutoverStep.VERIFY_FENCE, self._verify_fence
        yield CutoverStep.DRAIN, self._drain
        yield CutoverStep.PAUSE, self._pause
        yield CutoverStep.GROUPS, self._set_groups
        if self.plan.lifts:
            yield CutoverStep.LIFT, self.world.lift
        yield CutoverStep.SWITCH, self._switch
        yield CutoverStep.CLIENTS, self._await_clients
        yield CutoverStep.TAIL, self._tail
        if self.plan.started:
            yield CutoverStep.START, self._start
        if self.plan.settings.opens and self.plan.fence.rules:
            writes = f"{self.plan.origin} takes writes"
            yield CutoverStep.UNFENCE, partial(unfenced, self.world, writes, f": {writes}")
        yield CutoverStep.AFTER, partial(self._hook, CutoverStep.AFTER)
        if self.plan.gates is not None:
            yield CutoverStep.SOAK, partial(self._soak, self.plan.gates)

    def _ended(self, name: CutoverStep, act: Callable[[], StepEnd]) -> StepEnd:
        """Runs one step, unless an earlier run has taken it for good: a hook runs once, and nothing before *switch* is
        repeated after it."""
        if self.journal.switched and name in _BEFORE_SWITCH:
            return ALREADY, "over: clients may have moved"
        if name in _HOOKS and name in self.journal.done:
            return ALREADY, "done by an earlier run"
        self._keep(self.journal.begin(name))
        before, self._untouched = self._untouched, self._untouched and name in _LOOKS and not self.plan.settings.aborts
        end = self.world.perform(name, act)  # a failed step may have done its work, too
        self._untouched = self._untouched or (before and end[0] is SKIPPED)
        self.journal = self.journal.end(name)  # written at the next step: each write here prolongs the stop
        return end

    def _keep(self, journal: CutoverJournal) -> None:
        self.journal = replace(journal, at_ms=self._now_ms())
        self.world.keep(self.journal)

    # until the switch

    def _hook(self, step: CutoverStep) -> StepEnd:
        ran = self.world.hook(step.value)
        return (SKIPPED, "no hook is declared") if ran is None else (DONE, ran[1])

    def _fence(self) -> StepEnd:
        """The journal gets the time of the fence before its rules are made, so that after a kill in between the next
        run knows since when writes may be refused; and the ends at the destination: what a client writes there from now
        on is its own (``early_records``)."""
        wanted, before = self.plan.fence, self.journal.before
        if not before:
            before = {place(key): end for key, end in self.world.ends({}).items()}
        if wanted.obstacle:
            self._keep(replace(self.journal, before=before))
            return SKIPPED, f"no fence: {wanted.obstacle}. Stop the producers now"
        standing, _ = self.world.rules()
        # An earlier run may have made some of them: only the others are made, and the time of the fence stays.
        missing = wanted.rules - standing
        if not self.journal.fenced_ms:
            self._keep(replace(self.journal, fenced_ms=self._now_ms(), before=before))
        if not missing:
            return ALREADY, f"{counted(len(wanted.rules), 'deny rule')} on {self.plan.origin}"
        self.world.fence(missing)
        text = f"{counted(len(missing), 'deny rule')} made on {self.plan.origin}"
        spared = f" and {', '.join(wanted.spared)}" if wanted.spared else ""
        return DONE, f"{text}: only super users{spared} write there"

    def _verify_fence(self) -> StepEnd:
        ends, text = FenceWatch(self.world, self.plan).verified()
        self._keep(replace(self.journal, ends={place(key): end for key, end in ends.items()}))
        return DONE, text

    def _drain(self) -> StepEnd:
        """Waits until the flow has copied the last offset that was on the origin when the fence was verified."""
        goal, began, most, shown = self._ends(), self.world.now(), 0, -1
        while True:
            # Each turn first compares the ends with those at the fence: a record written after the fence would move the
            # goal, and ends the cut-over while nothing has moved.
            partitions = self.world.partitions()
            self._require_still(partitions)
            left = sum(max(0, end - (partitions[key].position or 0)) for key, end in goal.items() if key in partitions)
            unknown = sorted(f"{key[0]}-{key[1]}" for key in goal if key not in partitions)
            if not left and not unknown:
                break
            if not most and self.world.is_paused():
                self.world.resume()  # an earlier run paused it before a record came in after the fence
            most = max(most, left)
            if self.world.now() - began > self.plan.settings.within_s:
                rest = f"{left:,} of {counted(most, 'offset')}" if left else f"an unknown number in {unknown[0]}"
                raise ReconcilerError(
                    f"{self.plan.flow} has {rest} left to copy after {self.plan.settings.within_s:g} s",
                    "Clients are where they were. Producers are off meanwhile.",
                    f"Run this again to keep waiting, or let producers continue: {ROLLBACK}",
                )
            if left != shown:
                self.world.say(f"{CutoverStep.DRAIN:12} {left:,} of {most:,} left")
                shown = left
            self.world.sleep(LOOK_S)
        text = f"{self.plan.flow} has copied every offset up to the last: {counted(len(goal), 'partition')}"
        return step_end(bool(most), text)

    def _pause(self) -> StepEnd:
        """The journal gets the ends at the destination right after the pause: records beyond them are from clients
        (``own_records``)."""
        self._require_same_topics()
        done, note = self.world.pause()
        self._require_still(self.world.partitions())
        there = self.world.ends(self._ends())
        self._keep(replace(self.journal, there={place(key): end for key, end in there.items()}))
        scope = self.plan.flow if self.plan.whole else f"{counted(len(self.plan.topics), 'topic')} of {self.plan.flow}"
        return step_end(done, f"{scope} paused, {self.plan.destination} takes writes", note)

    def _set_groups(self) -> StepEnd:
        """Waits up to ``catch_up_s`` for members to read the rest at the origin, so that no record is read twice. Then
        sets all groups: a group that still has members gets its position again later (``_set_again``)."""
        until, ends = self.world.now() + self.plan.settings.catch_up_s, self._ends()
        while True:
            spans: dict[Key, tuple[int, int]] = {}
            moves = self.world.groups(settled=False)
            for move in moves:
                for offset in move.offsets if move.origin.members else ():
                    if offset.committed < (end := ends.get(offset.origin, 0)):
                        before = spans.get(offset.origin, (end, end))[0]
                        spans[offset.origin] = min(before, offset.committed), end
            unread = self.world.unread(spans)
            if not unread or self.world.now() >= until:
                break
            self.world.sleep(LOOK_S)
        # Reading groups again would take ten connections while writes are stopped. Progress of members since this
        # reading is set later, too.
        if any(not offset.translated.exact for move in moves for offset in move.offsets):
            moves = self.world.groups(settled=True)
        self._groups = self.world.commit(moves)
        count = sum(offset.after != offset.before for move in self._groups for offset in move.offsets)
        behind = f"; {counted(len(unread), 'partition')} not read to the end by members on {self.plan.origin}"
        text = f"{counted(len(self._groups), 'group')}, {counted(count, 'offset')} set on {self.plan.destination}"
        return step_end(bool(count), f"{text}{behind if unread else ''}{otherwise(self._groups)}")

    # from the switch on

    def _switch(self) -> StepEnd:
        # Members may have read on at the origin for half a minute since the last look.
        self._require_same_topics()
        self._require_still(self.world.partitions())
        # Kept before the hook runs: once a client may have moved, only the destination's log shows what can be undone.
        self._keep(replace(self.journal, switched=True))
        ran = self.world.hook(CutoverStep.SWITCH.value)
        if ran is None:
            return SKIPPED, f"no hook is declared: give clients the address of {self.plan.destination} now"
        return DONE, ran[1]

    def _await_clients(self) -> StepEnd:
        """Waits until every group with members has members at the destination, and every topic with producers is
        written there. Raises ReconcilerError after ``clients_s``; the next run waits again. A record that still arrives
        at the origin ends the run (``_look_for_late``)."""
        plan, until = self.plan, self.world.now() + self.plan.settings.clients_s
        awaited = {group.group for group in plan.groups if group.members}
        written = {topic for topic in plan.topics if topic.rate > 0 and topic.copy not in plan.shared}
        there = {key_of(name): end for name, end in self.journal.there.items()}
        while True:
            self._look_for_late()
            members = self.world.members()
            idle = sorted(group for group in awaited if not members.get(group))
            if idle:
                self._set_again(members)
            # A client may write to the topic's own name or to the copy's. One record is enough as proof: clients may
            # write gigabytes while others are waited for, and each turn would read all of it.
            own = {topic for topic, _ in self.world.own_records(there, 1)}
            silent = sorted(topic.topic for topic in written if not {topic.topic, topic.copy} & own)
            if not idle and not silent:
                break
            if self.world.now() >= until:
                parts = [f"groups {first_of(idle)}"] if idle else []
                parts += [f"producers of {first_of(silent)}"] if silent else []
                if not plan.settings.clients_s:
                    return SKIPPED, f"not waited for, and not seen yet: {' and '.join(parts)}"
                waited = time_words(plan.settings.clients_s)
                raise ReconcilerError(
                    f"not seen on {plan.destination} within {waited}: {' and '.join(parts)}",
                    "The way back is not started yet. What was seen before continues.",
                    f"Switch these clients and run this again: it keeps waiting. Or go back: {ROLLBACK}",
                )
            self.world.sleep(LOOK_S)
        if self.journal.fenced_ms and CutoverStep.CLIENTS not in self.journal.done:
            self._seen_after_s = (self._now_ms() - self.journal.fenced_ms) / 1000
        text = f"{counted(len(awaited), 'group')} with members and producers of {counted(len(written), 'topic')} seen"
        return step_end(bool(awaited or written), f"{text} on {plan.destination}")

    def _set_again(self, members: Mapping[str, int]) -> None:
        """Sets positions again of groups that read on at the origin before they left it. A group with members at the
        destination keeps its own positions."""
        waiting = [move for move in self.world.groups(settled=False) if not members.get(move.group)]
        now = {move.group: move for move in self.world.commit(waiting)}
        moved = {name: move for name, move in now.items() if any(each.after != each.before for each in move.offsets)}
        self._groups = tuple({**{move.group: move for move in self._groups}, **moved}.values())

    def _tail(self) -> StepEnd:
        if fresh := sorted(self.world.topics().keys() - self.plan.names) if self.plan.whole else ():
            text = f"made on {self.plan.origin} since the fence was verified, and not copied: {first_of(fresh)}"
            self._findings[f"{text}. They travel by: reconciler mirror resume ENV {self.plan.flow}"] = None
        there = {key_of(name): end for name, end in self.journal.there.items()}
        compared, note = self.world.tail(self._ends(), there)
        return (DONE if compared else SKIPPED), note

    def _start(self) -> StepEnd:
        self._look_for_late()
        self._keep(replace(self.journal, started=self.plan.started))
        done, note = self.world.start_back()
        return step_end(done, f"{self.plan.started} runs", note)

    def _soak(self, gates: Gates) -> StepEnd:
        """Waits until all gates have held for the soak without a break. The journal keeps the time, so that a killed
        run does not start the soak again."""
        soak_s, gap_ms = self.plan.settings.soak_s, RolloutOptions().gap_ms
        state = Settling(round(soak_s * 1000), gates.wait_ms, gap_ms, self.journal.soaked_ms)
        while state.verdict is not SoakVerdict.PASSED:
            unmet = self.world.gate_faults()
            state = looked(state, unmet, int(self.world.now() * 1000))
            # After each look, since a kill may come at any time. What was doubted is not kept as soaked.
            self._keep(replace(self.journal, soaked_ms=0 if state.doubted else state.soaked_ms))
            if state.verdict is SoakVerdict.BROKEN:
                raise ReconcilerError(
                    f"gates do not hold after the cut-over: {first_of(list(map(str, unmet)))}",
                    f"No other topic of {self.plan.flow} is moved until they have held for {time_words(soak_s)}.",
                    f"Repair it and run this again: the soak starts again. Or go back: {ROLLBACK}",
                )
            if state.verdict is SoakVerdict.SOAKING:
                self.world.sleep(min(POLL_SECONDS, state.left_ms / 1000))
            elif state.verdict is SoakVerdict.WAITING:
                self.world.sleep(WAITING_SECONDS)
        return DONE, f"all gates held for {time_words(soak_s)}"

    # what several steps need

    def _ends(self) -> Mapping[Key, int]:
        return {key_of(name): end for name, end in self.journal.ends.items()}

    def _late(self, partitions: Mapping[Key, PartitionState]) -> dict[str, int]:
        """Partition of the origin -> offsets written after the fence was verified. Empty once the way back may run, and
        without partitions that a mirror writes: their ends move for good reason."""
        if CutoverStep.START in self.journal.done or self.journal.started:
            return {}
        fence = self.plan.fence
        denied = {rule.name for rule in fence.rules if rule.principal == ANYONE}
        alone = (key for key in self._ends() if key in partitions and (not fence.spared or key[0] in denied))
        states = {key: partitions[key].written for key in alone}
        late = {key: (end or 0) - self._ends()[key] for key, end in states.items()}
        return {f"{key[0]}-{key[1]}": count for key, count in late.items() if count > 0}

    def _require_still(self, partitions: Mapping[Key, PartitionState]) -> None:
        """Raises ReconcilerError, while clients have not moved, if the origin got a record after the fence was
        verified."""
        if late := self._late(partitions):
            words = [f"{name} by {counted(count, 'offset')}" for name, count in late.items()]
            raise ReconcilerError(
                f"{self.plan.origin} was written after the fence was verified: {first_of(words)}",
                "A producer does not obey the fence, so what was drained is not the end. Clients are where they were.",
                f"Stop it and run this again: it verifies and drains again. Or go back: {ROLLBACK}",
            )

    def _look_for_late(self) -> None:
        if late := self._late(self.world.partitions()):
            words = [f"{name}: {counted(count, 'offset')}" for name, count in late.items()]
            text = f"written on {self.plan.origin} behind the fence, after it was verified, and not copied: "
            text += f"{first_of(words)}. They stay there until a failback, or travel at once by: "
            topic = "" if self.plan.whole else f" --topic {next(iter(late)).rpartition('-')[0]}"
            self._findings = {f"{text}reconciler mirror resume ENV {self.plan.flow}{topic}": None}

    def _require_same_topics(self) -> None:
        """Raises ReconcilerError if a topic was deleted, recreated or created meanwhile: its offsets are other ones, or
        not drained. If only chosen topics move, a new topic is ignored."""
        planned, now = planned_topics(self.plan), self.world.topics()
        changed = [f"{name}: was {words}, is {now.get(name, 'absent')}" for name, words in planned.items()]
        changed = [each for each, name in zip(changed, planned, strict=True) if now.get(name) != planned[name]]
        fresh = sorted(now.keys() - planned.keys())
        if fresh and not self.plan.whole:
            self._findings[f"not part of this cut-over, as they were made during it: {first_of(fresh)}"] = None
        elif fresh:
            changed += [f"{name}: was absent, is {now[name]}" for name in fresh]
        if changed:
            raise ReconcilerError(
                f"topics of {self.plan.flow} changed during the cut-over: {first_of(changed)}",
                "The flow is paused as a whole, so that their records would stay behind. Clients are where they were.",
                f"Take it back, and plan again: {ROLLBACK}",
            )


def fresh_journal(plan: CutoverPlan, digest: str, who: str, at_ms: int) -> CutoverJournal:
    return CutoverJournal(
        plan.environment, plan.flow, digest, plan.origin, tuple(sorted(plan.names)), who, at_ms,
        topics_expression=plan.topics_expression, groups_expression=plan.groups_expression,
    )  # fmt: skip
