"""What an edit means and what it would do: git's store, the folder and the live clusters brought together.

Border: no arguments, no printing; those are ``cli``. Offline parts never open a connection.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from reconciler.applied import Consent
from reconciler.beginning import Begun, begin
from reconciler.collecting import collect
from reconciler.comparing import compare
from reconciler.comparison import Against, Comparison
from reconciler.edges.files import read_environment
from reconciler.edges.git import Revision, Snapshot, revision, snapshot, touched
from reconciler.errors import ReconcilerError, TopologyError
from reconciler.exit_codes import ExitCode
from reconciler.explaining import explain
from reconciler.explanation import Explanation
from reconciler.loading import load
from reconciler.places import Places
from reconciler.plans import Plan
from reconciler.rendering.fitting import Handoff
from reconciler.rendering.review import Review
from reconciler.topology import Principal, Topology
from reconciler.wiring import Session, open_session, read_topology
from reconciler.yaml_text import read


@dataclass(frozen=True, slots=True)
class Wish:
    """``revert``: plan going back to ``base`` instead of going on from it. ``offline``: ask no cluster. ``prune``: with
    left-over topics deleted."""

    base: str | None = None
    revert: bool = False
    offline: bool = False
    prune: bool = False

    @property
    def consent(self) -> Consent:
        return Consent(prune=self.prune)


def untouched(env: Path, ref: str) -> str | None:
    """A sentence when no file of the environment differs from ``ref``, else None."""
    at = snapshot(env, ref)
    if touched(env, at):
        return None
    return f"{env} is untouched since {ref} (commit {at.commit[:12]}): nothing to plan"


def review(env: Path, wish: Wish, begun: Begun | None = None) -> Review:
    """``begun``: of ``env``, where ``wish`` has no base."""
    if wish.base is None:
        _needs_base(wish)
        with open_session(env, Principal.PLAN, begun or begin(env, Principal.PLAN)) as session:
            return Review(session.plan(consent=wish.consent))
    now, at = read_topology(env), snapshot(env, wish.base)
    against = Against(wish.base, at.commit, revision(env).dirty, wish.revert)
    try:
        # A tombstone that has expired since was agreed then; going back to it is another matter.
        before = load(at.named, now.environment, None if wish.revert else date.min) if at.texts else None
    except TopologyError as error:
        if wish.offline or wish.revert:
            raise
        return Review(_planned(env, now, None, wish), None, against, untold=error.problems)
    if not wish.revert:
        found = replace(compare(before, now), same_text=not touched(env, at))
        return Review(None if wish.offline else _planned(env, now, None, wish), found, against)
    if before is None:
        raise ReconcilerError(
            f"{env} was not there at {wish.base}, so there is no going back to it",
            "Going back would mean an environment that wishes nothing, and an empty wish is never carried out.",
            "To remove topics, declare tombstones for them.",
        )
    back: Comparison = replace(compare(now, before), same_text=not touched(env, at))
    return Review(None if wish.offline else _planned(env, before, at, wish), back, against, compare(before, now))


def explained(env: Path, subject: str, offline: bool) -> Explanation:
    if offline:
        return explain(read_topology(env), subject, None, _places(env))
    with open_session(env, Principal.PLAN) as session:
        return explain(session.topology, subject, session.observe(), _places(env))


def _places(env: Path) -> Places:
    found, _ = collect(read(file, text) for file, text in sorted(read_environment(env).items()))
    return found


def handoff(env: Path, out: Path | None, wish: Wish, artifact: str) -> Handoff:
    """No command for a way back: the folder has to be as it was first, and then it is a plan like any other."""
    command = f"reconciler apply {shlex.quote(str(env))}"
    if out is not None:
        command += f" --plan {shlex.quote(str(out))}"
    if wish.prune:
        command += " --prune"
    return Handoff("" if wish.revert else command, artifact)


def goes_on(plan: Plan, handoff: Handoff) -> str:
    """What is to be said of a plan that was saved."""
    if not handoff.apply:
        return "to apply it, git revert first"
    if plan.refused or plan.unknown:
        return f"apply refuses it while anything is blocked or unknown; the rest of it with: {handoff.apply} --partial"
    return f"apply exactly this with: {handoff.apply}"


def worst(codes: Sequence[ExitCode]) -> ExitCode:
    """Of several environments: what is unknown counts most, then what is blocked, then changes."""
    order = (ExitCode.ERROR, ExitCode.BLOCKED, ExitCode.CHANGES)
    return next((code for code in order if code in codes), ExitCode.DONE)


def _planned(env: Path, topology: Topology, at: Snapshot | None, wish: Wish) -> Plan:
    with closing(Session(env, topology, Principal.PLAN)) as session:
        return session.plan(Revision(at.commit) if at else None, wish.consent)


def _needs_base(wish: Wish) -> None:
    if wish.revert or wish.offline:
        word = "--revert" if wish.revert else "--offline"
        raise ReconcilerError(
            f"{word} is given without --base", "It says what to compare with.", f"Write --base main {word}."
        )
