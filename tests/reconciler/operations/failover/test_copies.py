"""Read-only copies are lifted and kept again, by runs that are killed at any request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.clusters.acls_and_quotas import AccessControl
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.changes import AclChange, CreateAcl
from reconciler.model.environment.flow_settings import CopyMode
from reconciler.model.live import LiftedCopies, LiveAccess, Made
from reconciler.model.principals import (
    AccessRule,
    AclBinding,
    ExactRule,
    NamePattern,
    Operation,
    Permission,
    ResourceType,
    Unsupported,
)
from reconciler.model.reports.failover import CopiesSeen, StepResult
from reconciler.operations.failover.fence import LIFT, RESTORE, Fence, ReadOnlyCopies
from reconciler.replication.handover import Naming
from reconciler.resources.acls.derive_from_flows import denial, is_lifted
from tests.support.access.acls import rule
from tests.support.builders import flow, topology

KEPT = flow("east", "west", "orders", "pay", naming=Naming("identity"), copies=CopyMode.READ_ONLY)
OURS = frozenset(denial(topic, f"User:{who}") for topic in ("orders", "pay") for who in ("app", "etl"))
OTHERS = frozenset(
    {
        denial("other", "User:app"),
        denial("orders", "User:intern"),
        rule("deny User:app read topic orders"),
        rule("allow User:app write topic *"),
    }
)
MADE = Made("User:app: may not write what flow east-to-west brings", "flow east-to-west")


class KilledError(BaseException):
    """kill -9: nothing after it runs."""


@dataclass
class Rules:
    """In place of ``AccessControl``: requests of one rule each. ``kill_at``: number of the request that kills."""

    acls: set[AclBinding]
    owned: dict[AclBinding, Made]
    kept: dict[LiftedCopies, tuple[str, ...]] = field(default_factory=dict)
    unreadable: Unknown | Unsupported | None = None
    kill_at: int = -1
    most: int = 1

    @property
    def lifted(self) -> Rules:
        return self

    def _call(self) -> None:
        self.kill_at -= 1
        if self.kill_at == 0:
            raise KilledError

    def read(self) -> LiveAccess:
        return LiveAccess(self.unreadable or frozenset(self.acls), dict(self.owned), lifted=dict(self.kept))

    def write(self, entries: Mapping[LiftedCopies, tuple[str, ...] | None]) -> None:
        self._call()
        for entry, denied in entries.items():
            if denied is None:
                self.kept.pop(entry, None)
            else:
                self.kept[entry] = denied
        self._call()

    def failures(self, changes: Sequence[AclChange]) -> list[str]:
        self._call()
        for change in changes:
            if isinstance(change, CreateAcl):
                self.owned[change.acl] = Made(change.grant.title, change.grant.maker)
                self.acls.add(change.acl)
            else:
                self.acls.discard(change.acl)
                self.owned.pop(change.acl, None)
        self._call()
        return [""] * len(changes)


def copies(rules: Rules, topics: tuple[str, ...] = (), kept: Any = KEPT) -> ReadOnlyCopies:
    made = ReadOnlyCopies(topology(kept), "east-to-west", topics)
    made._access = cast("AccessControl", rules)
    return made


def there() -> Rules:
    return Rules({*OURS, *OTHERS}, {**dict.fromkeys(OURS, MADE), denial("other", "User:app"): Made("", "flow other")})


@given(st.lists(st.integers(1, 12), max_size=4), st.lists(st.integers(1, 12), max_size=4), st.booleans())
def test_killed_anywhere_it_goes_on_and_what_others_made_stays(kills: list[int], again: list[int], some: bool) -> None:
    rules, topics = there(), ("orders",) if some else ()
    moved = {each for each in OURS if not some or each.name == "orders"}
    for at in [*kills, -1]:
        rules.kill_at = at
        with suppress(KilledError):
            copies(rules, topics).lift()
        if rules.acls & OURS != OURS:
            assert is_lifted(rules.kept, KEPT, "orders"), "recorded before a rule goes, so that no plan denies it again"
    assert rules.acls == {*OURS, *OTHERS} - moved
    assert is_lifted(rules.kept, KEPT, "pay") is not some
    assert copies(rules, topics).lift()[0] is StepResult.ALREADY
    for at in [*again, -1]:
        rules.kill_at = at
        with suppress(KilledError):
            copies(rules, topics).restore()
    assert rules.acls == {*OURS, *OTHERS}
    assert rules.owned.keys() == {*OURS, denial("other", "User:app")}
    assert not rules.kept


def test_what_access_declares_stays_denied() -> None:
    rules = there()
    exact = ExactRule(ResourceType.TOPIC, (NamePattern("orders"),), (Operation.WRITE,), Permission.DENY)
    declared = replace(topology(KEPT), access=(AccessRule(1, "User:etl", ("west",), exact=exact),))
    made = ReadOnlyCopies(declared, "east-to-west")
    made._access = cast("AccessControl", rules)
    assert denial("orders", "User:etl") in made.look().others
    made.lift()
    assert rules.acls & OURS == {denial("orders", "User:etl")}


@pytest.mark.usefixtures("own_policies")
def test_the_record_has_the_source_of_names_that_cannot_be_reversed() -> None:
    own = replace(KEPT, naming=Naming("tests.support.policies:Suffixing"))
    copy = denial("orders_from_east", "User:app")
    rules = Rules({copy, denial("other", "User:app")}, {copy: MADE, denial("other", "User:app"): Made("", "flow x")})
    copies(rules, kept=own).lift()
    assert rules.acls == {denial("other", "User:app")}


def test_a_flow_without_the_key_has_no_step_and_one_whose_key_went_denies_nothing_anew() -> None:
    plain = replace(KEPT, copies=None)
    unread = copies(there(), kept=plain)
    assert unread.look() == CopiesSeen()
    assert unread.planned(unread.look(), LIFT) is None
    rules = there()
    copies(rules).lift()
    writable = copies(rules, kept=replace(KEPT, copies=CopyMode.WRITABLE))
    assert writable.planned(writable.look(), RESTORE) is not None
    writable.restore()
    assert not rules.acls & OURS
    assert not rules.kept


def test_rules_that_cannot_be_read_fail_the_step_and_no_authorizer_has_none() -> None:
    rules = there()
    rules.unreadable = Unknown("access west", "may not read", "Allow it")
    dark = copies(rules)
    assert dark.planned(dark.look(), LIFT) is not None
    for step in (dark.lift, dark.restore):
        with pytest.raises(ReconcilerError, match="may not read"):
            step()
    assert rules.acls == {*OURS, *OTHERS}
    rules.unreadable = Unsupported("no authorizer")
    assert dark.planned(dark.look(), LIFT) is None


def test_a_fence_goes_in_requests_that_a_controller_takes_and_ends_with_the_first_refusal() -> None:
    """KRaft refuses a request of more than 10,000 rules as a whole, and a flow may carry more topics than that."""
    asked: list[list[str]] = []

    def sent(changes: Sequence[AclChange]) -> dict[AclBinding, str]:
        asked.append([change.acl.name for change in changes])
        return {change.acl: f"west: {change.acl.name} is refused" for change in changes if change.acl.name == "t2"}

    fence = Fence(topology(KEPT), "east-to-west")
    recorded: list[int] = []
    fence._access = cast("AccessControl", SimpleNamespace(most=2, sent=sent))
    fence._record = cast("Any", SimpleNamespace(write=lambda entries: recorded.append(len(entries))))
    fence.put([denial(f"a{number}") for number in range(5)], "failover")
    assert (asked, recorded) == ([["a0", "a1"], ["a2", "a3"], ["a4"]], [5])
    asked.clear()
    with pytest.raises(ReconcilerError, match="t2 is refused") as refused:
        fence.strike([denial(f"t{number}") for number in range(5)])
    assert (asked, recorded) == ([["t0", "t1"], ["t2", "t3"]], [5]), "recorded while a rule may be there"
    assert refused.value.why == "1 of 2 rules were not changed."
