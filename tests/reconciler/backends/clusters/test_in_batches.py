"""Every broker is asked until it shows a change; a broker that is too late is reported by its number."""

from __future__ import annotations

from reconciler.backends.clusters.in_batches import until_shown


def test_each_broker_is_asked_again_until_nothing_differs_there() -> None:
    answers: dict[int, list[list[str]]] = {1: [["a", "b"], ["b"], []], 2: [[]], 3: [["a"], []]}
    assert until_shown(answers, lambda broker: answers[broker].pop(0), 10) == {}
    assert answers == {1: [], 2: [], 3: []}


def test_what_one_broker_does_not_show_in_time_is_reported_and_the_next_is_not_asked() -> None:
    asked: list[int] = []

    def differing(broker: int) -> list[str]:
        asked.append(broker)
        return ["a"] if broker == 2 else []

    assert until_shown((1, 2, 3), differing, 0.0) == {"a": 2}
    assert set(asked) == {1, 2}
