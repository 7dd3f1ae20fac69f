"""Requests stay below the controller's limit, lose nothing, and mix no kinds."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.clusters.topics.batches import (
    RECORDS_PER_REQUEST,
    PlannedTopicChange,
    cut,
    rank_of,
    records_of,
    steps,
)
from reconciler.model.changes import (
    AddPartitions,
    AlterConfigs,
    ConfigChange,
    CreateTopic,
    Reason,
    Role,
    TopicChange,
    Why,
)
from reconciler.model.environment.topology import TopicRef

WHY = Reason(Why.DECLARED, "")


def _configs(count: int) -> tuple[ConfigChange, ...]:
    return tuple(ConfigChange(f"k{i}", None, "", "1", "") for i in range(count))


refs = st.integers(0, 30).map(lambda i: TopicRef("east", f"t{i}"))
changes: st.SearchStrategy[TopicChange] = st.one_of(
    st.builds(
        lambda ref, partitions, configs: CreateTopic(ref, partitions, None, _configs(configs), Role.DECLARED, WHY),
        refs,
        st.sampled_from([-1, 1, 12, 900, 4_990, 12_000]),
        st.integers(0, 12),
    ),
    st.builds(lambda ref, more: AddPartitions(ref, "id", 1, 1 + more, Role.DECLARED, WHY), refs, st.integers(1, 6_000)),
    st.builds(
        lambda ref, configs: AlterConfigs(ref, "id", _configs(configs), Role.DECLARED, WHY), refs, st.integers(1, 12)
    ),
)
items = st.lists(changes).map(lambda found: [PlannedTopicChange(f"c{i}", change) for i, change in enumerate(found)])


@given(items)
def test_every_change_is_in_exactly_one_request(given: list[PlannedTopicChange]) -> None:
    assert sorted(item.id for batch in cut(given) for item in batch) == sorted(item.id for item in given)


@given(items)
def test_no_request_is_above_the_limit_unless_one_change_alone_is(given: list[PlannedTopicChange]) -> None:
    for batch in cut(given):
        assert len(batch) == 1 or sum(records_of(item.change) for item in batch) <= RECORDS_PER_REQUEST


@given(items)
def test_a_request_has_one_kind_and_each_topic_once(given: list[PlannedTopicChange]) -> None:
    for batch in cut(given):
        assert len({rank_of(item.change) for item in batch}) == 1
        assert len({item.change.ref for item in batch}) == len(batch)


@given(items)
def test_creates_come_before_growth_and_growth_before_configs(given: list[PlannedTopicChange]) -> None:
    ranks = [rank_of(batch[0].change) for batch in cut(given)]
    assert all(earlier <= later for earlier, later in pairwise(ranks))


@given(items)
def test_the_order_within_a_kind_is_kept(given: list[PlannedTopicChange]) -> None:
    for rank in range(3):
        sent = [item.id for batch in cut(given) for item in batch if rank_of(item.change) == rank]
        assert sent == [item.id for item in given if rank_of(item.change) == rank]


@given(st.lists(changes, min_size=2))
def test_requests_are_not_needlessly_small(given: list[TopicChange]) -> None:
    """Two neighbours of one kind without a common topic would have been above the limit together."""
    batches = list(cut([PlannedTopicChange(f"c{i}", change) for i, change in enumerate(given)]))
    for one, other in pairwise(batches):
        same_kind = rank_of(one[0].change) == rank_of(other[0].change)
        if same_kind and other[0].change.ref not in {item.change.ref for item in one}:
            assert sum(records_of(item.change) for item in one) + records_of(other[0].change) > RECORDS_PER_REQUEST


def test_a_change_of_more_partitions_than_a_request_may_have_is_made_in_steps() -> None:
    reason = Reason(Why.DECLARED, "")
    new = CreateTopic(TopicRef("east", "t"), 12_000, 3, (), Role.DECLARED, reason)
    made, *grown = steps(new)
    assert isinstance(made, CreateTopic)
    assert made.partitions == 5_000
    assert [(each.before, each.after) for each in grown if isinstance(each, AddPartitions)] == [
        (5_000, 10_000),
        (10_000, 12_000),
    ]
    raised = AddPartitions(TopicRef("east", "t"), "id", 10, 9_000, Role.DECLARED, reason)
    assert [each.after for each in steps(raised) if isinstance(each, AddPartitions)] == [5_010, 9_000]
    small = CreateTopic(TopicRef("east", "t"), 5_000, 3, (), Role.DECLARED, reason)
    assert list(steps(small)) == [small]
