"""Until-caught-up: the job ends by itself once everything at the source is copied, or cannot be.

The goal is a file ``goal.json`` in the run directory, and not a part of the hand-over, so it changes no fingerprint.
"""

import asyncio
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.client.errors import WireError
from reconciler.replication.handover import FlowSettings, HandoverError, MirrorSettings
from reconciler.replication.json_codec import Codec, parsed
from reconciler.replication.records.pauses import scopes_around
from reconciler_mirror.board.board import Board
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.lane.positions import start_offsets
from reconciler_mirror.model.lane import Condition
from reconciler_mirror.model.views import FlowView

GRACE_S = 20.0
"""Seconds after which a condition that stops a partition ends the job; one that waits for a cluster has PATIENCE_S."""
PATIENCE_S = 90.0
_WAITING = ("unavailable", "unreachable", "unreadable", "undecided")
_MOST_NAMED = 8
_AUTOMATIC = re.compile(
    r"[;.]? ?[^;.]*\b(?:automatically|by itself)\b[^;.]*"
)  # true of a job that continues; this one ends
Ends = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Goal:
    """``flows`` empty: all. ``calm_s`` above 0: the lag must stay 0 for so long; otherwise a fixed end is enough."""

    flows: frozenset[str] = frozenset()
    calm_s: float = 0.0


def _seconds(given: object) -> float:
    if not isinstance(given, int | float) or not 0 <= given < 1e9:
        raise ValueError("it must be seconds")
    return float(given)


_CODEC = Codec({float: (float, _seconds)})


def goal_of(text: str | None) -> Goal | None:
    """``text``: content of the file, or None. Raises HandoverError: without its goal the job would never end."""
    try:
        return None if text is None else _CODEC.decoded(Goal, parsed(text))
    except ValueError as error:
        words = "Without it the job would not end. Start it again: reconciler mirror start ENV --until-caught-up."
        raise HandoverError(f"The goal of the job cannot be read: {error}. {words}") from None


@dataclass(frozen=True, slots=True)
class CatchUpVerdict:
    """The end of the wait: whether the goal is reached, and a sentence about it."""

    reached: bool
    detail: str


@dataclass(slots=True)
class CatchUp:
    """``look`` is called periodically; None: continue."""

    goal: Goal
    settings: MirrorSettings
    board: Board
    _calm_since: float | None = None
    _ends: dict[str, Ends] = field(default_factory=dict)
    _seen: dict[tuple[str, str, str | None, int | None], float] = field(default_factory=dict)

    def look(self) -> CatchUpVerdict | None:
        """Whether the goal is reached. A flow that cannot reach it ends the wait for all. Without ``calm_s`` the goal
        is the source's end at the beginning, so that a busy source cannot keep the job for ever."""
        flows = [view for view in self.board.view() if not self.goal.flows or view.settings.name in self.goal.flows]
        hopeless = [(view.settings.name, why) for view in flows if (why := self._hopeless(view)) is not None]
        if hopeless:
            return CatchUpVerdict(
                False, " ".join(f"flow {name} cannot be caught up with: {why}" for name, why in hopeless)
            )
        # A flow that has not begun has no lag, which is no proof that it has caught up.
        if not all(view.running and self._begun(view) for view in flows):
            return None
        goals = [self.board.goal_view(view.settings.name) for view in flows]
        reached = all(goal is not None and goal.partitions == goal.done for goal in goals)
        if self.goal.calm_s:
            calm = all(view.figures.records_lag == 0 for view in flows)
            self._calm_since = (self._calm_since or time.monotonic()) if calm else None
            reached = self._calm_since is not None and time.monotonic() - self._calm_since >= self.goal.calm_s
        if not reached:
            return None
        counts = ", ".join(f"{view.settings.name} {view.figures.records_total:,} records" for view in flows)
        return CatchUpVerdict(True, f"caught up and stopped by itself: {counts}")

    def _begun(self, view: FlowView) -> bool:
        """Reads once the source's ends of all partitions of the flow. False if the source does not answer yet, or if
        some topics cannot be copied: without their ends the goal would look reached."""
        flow = view.settings
        if self._without_lane(flow.name):
            return False
        if flow.name not in self._ends:
            specs = self.board.discovered_now(flow.name).specs
            try:
                written, ends = asyncio.run(_ends(flow, {(spec.topic, spec.partition) for spec in specs}))
            except (WireError, LookupError):  # a secret reference; lanes and discovery report both
                return False
            self._ends[flow.name] = ends
            undecided = sum(max(0, written[key] - end) for key, end in ends.items())
            self.board.set_goal(flow.name, ends, undecided)
        return True

    def _without_lane(self, flow: str) -> list[Condition]:
        """Reasons why matching topics have no lane; these topics are in no lag and no list of partitions."""
        return [condition for condition in self.board.discovered_now(flow).conditions if condition.stops]

    def _hopeless(self, view: FlowView) -> str | None:
        now = time.monotonic()  # a clock that is set must end nothing
        ends, done = self._ends.get(view.settings.name, {}), self.board.done(view.settings.name)
        behind = [p for p in view.partitions if not ends or (p.topic, p.partition) in ends.keys() - done]
        laneless = self._without_lane(view.settings.name)
        paused = {pause.scope for pause in view.pauses}
        for partition in behind if paused else ():
            around = scopes_around(view.settings.name, partition.topic, partition.partition)
            if scope := next((scope for scope in around if scope in paused), None):
                return f"{scope} is paused. Resume it with reconciler mirror resume ENV {scope.typed}, then start again"
        conditions: list[Condition] = []
        lasts = False
        for condition, since in self._since(view, now):
            waits = condition.code.endswith(_WAITING)
            concerns = condition.topic is None or any(
                partition.topic == condition.topic and condition.partition in (None, partition.partition)
                for partition in behind
            )
            missing = condition in laneless or condition.code.startswith(("target_topic", "start_"))
            if (condition.stops or waits) and (concerns or missing):
                conditions.append(condition)
                lasts |= now - since > (PATIENCE_S if waits else GRACE_S)
        return _in_words(conditions) if lasts else None

    def _since(self, view: FlowView, now: float) -> list[tuple[Condition, float]]:
        """The conditions, and since when each holds; one that ended and came back is new."""
        flow, before = view.settings.name, self._seen
        conditions = {
            (flow, condition.code, condition.topic, condition.partition): condition for condition, _ in view.conditions
        }
        self._seen = {key: since for key, since in before.items() if key[0] != flow}
        self._seen |= {key: before.get(key, now) for key in conditions}
        return [(condition, self._seen[key]) for key, condition in conditions.items()]


async def _ends(flow: FlowSettings, keys: Collection[Key]) -> tuple[Ends, Ends]:
    """The source's high watermarks, and its ends at the flow's isolation level."""
    with closing(cluster_of(flow.source)) as source:
        written = await start_offsets(source, keys, "latest", None, committed=False)  # first: ends only grow
        committed = flow.isolation == "read_committed"
        return written, await start_offsets(source, keys, "latest", None, committed=committed)


def _in_words(conditions: Sequence[Condition]) -> str:
    """All conditions and their remedies, each once."""
    all_conditions = conditions[:_MOST_NAMED]
    texts = [f"{condition.code}: {condition.text.rstrip('. ')}." for condition in all_conditions]
    texts += (
        [f"And {len(conditions) - len(all_conditions):,} more, see reconciler status ENV."]
        if len(conditions) > len(all_conditions)
        else []
    )
    todos = dict.fromkeys(
        words for condition in all_conditions if (words := _AUTOMATIC.sub("", condition.todo).strip(" .;"))
    )
    return " ".join([*texts, *(f"{words}." for words in todos)])
