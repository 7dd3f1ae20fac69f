"""Effects of rules that come and go: no gain or loss is missed or invented."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.plan import AccessShift
from reconciler.model.principals import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook
from reconciler.resources.acls.authorizer.gains_and_losses import OPERATIONS, SOMEBODY_ELSE, locked_out, shifts

NAMES = ("pay", "pay.in", "pay.out", "q")
RESOURCES = (ResourceType.TOPIC, ResourceType.GROUP)


def rule(
    text: str, operation: Operation, principal: str = "User:a", permission: Permission = Permission.ALLOW
) -> AclBinding:
    """``pay*`` is a prefix, ``*`` the wildcard."""
    prefixed = text.endswith("*") and text != "*"
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    name = text[:-1] if prefixed else text
    return AclBinding(ResourceType.TOPIC, name, pattern, principal, "*", operation, permission)


@st.composite
def any_rule(draw: st.DrawFn) -> AclBinding:
    name = draw(st.sampled_from(("*", "p", "pay", "pay.", "pay.in", "q", "new")))
    prefixed = name != "*" and draw(st.booleans())
    return AclBinding(
        draw(st.sampled_from(RESOURCES)),
        name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        draw(st.sampled_from(("User:a", "User:b", "User:*"))),
        draw(st.sampled_from(("*", "192.0.2.9"))),
        draw(st.sampled_from(list(Operation))),
        draw(st.sampled_from(list(Permission))),
    )


RULES = st.frozensets(any_rule(), max_size=8)


@given(RULES, RULES)
def test_every_difference_is_reported_and_nothing_else(was: frozenset[AclBinding], now: frozenset[AclBinding]) -> None:
    before, after = Rulebook.of(was), Rulebook.of(now)
    told = shifts(before, after, was ^ now, dict.fromkeys(RESOURCES, NAMES))
    said = {
        (shift.principal, shift.resource, operation, name): shift.gained
        for shift in told
        if shift.host == "*"
        for operation in shift.operations
        for name in shift.names
    }
    for principal in ("User:a", "User:b"):
        if not any(one.principal == principal for one in was | now):
            continue  # then it is among anybody else
        for resource in RESOURCES:
            for name in NAMES:
                for operation in OPERATIONS[resource]:
                    request = AccessRequest(principal, operation, resource, name)
                    first, then = before.allows(request), after.allows(request)
                    from_one_host = any(one.host != "*" for one in was ^ now)
                    if first != then and not from_one_host:
                        assert said.get((principal, resource, operation, name)) is then
                    if first == then:
                        assert (principal, resource, operation, name) not in said


def test_a_second_rule_that_allows_the_same_means_no_loss() -> None:
    wide, narrow = rule("pay*", Operation.READ), rule("pay.in", Operation.READ)
    before, after = Rulebook.of([wide, narrow]), Rulebook.of([wide])
    assert shifts(before, after, [narrow], {ResourceType.TOPIC: NAMES}) == ()


def test_who_loses_a_prefix_loses_names_to_come() -> None:
    wide = rule("pay*", Operation.READ)
    (lost,) = shifts(Rulebook.of([wide]), Rulebook.of([]), [wide], {ResourceType.TOPIC: NAMES})
    assert lost == AccessShift(
        "",
        "User:a",
        False,
        ResourceType.TOPIC,
        (Operation.DESCRIBE, Operation.READ),
        ("pay", "pay.in", "pay.out"),
        ("pay*",),
    )


def test_a_denial_for_everybody_names_all_and_the_others() -> None:
    reads, stop = rule("pay", Operation.READ), rule("pay", Operation.READ, "User:*", Permission.DENY)
    all_ = rule("pay", Operation.READ, "User:*")
    before, after = Rulebook.of([reads, all_]), Rulebook.of([reads, all_, stop])
    told = shifts(before, after, [stop], {ResourceType.TOPIC: NAMES})
    assert {shift.principal for shift in told} == {"User:a", SOMEBODY_ELSE}
    assert all(not shift.gained and shift.operations == (Operation.READ,) for shift in told)


def test_ten_thousand_topics_cost_their_classes() -> None:
    names = [f"pay.{number}" for number in range(10_000)]
    wide = rule("*", Operation.ALL)
    (gained,) = shifts(Rulebook.of([]), Rulebook.of([wide]), [wide], {ResourceType.TOPIC: names})
    assert (len(gained.names), gained.patterns) == (10_000, ("*",))


def test_locked_out_with_its_proof() -> None:
    needed = rule("pay*", Operation.READ, "User:mirror")
    stop = rule("*", Operation.READ, "User:*", Permission.DENY)
    before = Rulebook.of([needed])
    (denied,) = locked_out(before, Rulebook.of([needed, stop]), [needed])
    assert (denied.today, denied.by) == (needed, stop)
    (missing,) = locked_out(before, Rulebook.of([]), [needed])
    assert (missing.today, missing.by) == (needed, None)
    assert locked_out(before, Rulebook.of([rule("*", Operation.READ, "User:*")]), [needed]) == ()
    assert locked_out(Rulebook.of([]), Rulebook.of([]), [needed]) == (), "what was never allowed is not lost"


def test_all_is_needed_operation_by_operation() -> None:
    everything = rule("pay", Operation.ALL)
    left = [rule("pay", operation) for operation in OPERATIONS[ResourceType.TOPIC] if operation is not Operation.WRITE]
    (lost,) = locked_out(Rulebook.of([everything]), Rulebook.of(left), [everything])
    assert lost.request.operation is Operation.WRITE
