"""What ``validate`` says of waves: every problem at once, each at its line."""

from __future__ import annotations

import pytest

from reconciler.engine.edits.compare import compare
from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.rollout import Gates, MirrorGate
from reconciler.model.environment.topology import Topology

CLUSTERS = """clusters:
  east: {bootstrap_servers: ["east:9092"], region: eu-west}
  west: {bootstrap_servers: ["west:9092"], region: us-east}
  hub: {bootstrap_servers: ["hub:9092"]}
"""
WAVES = "  - {name: canary, regions: [eu-west]}\n  - {name: rest, regions: [us-east], clusters: [hub], soak: 1h}\n"


def loaded(rollout: str, more: str = "") -> Topology:
    return load({"e.yaml": CLUSTERS + more + rollout}, "e")


def problems(rollout: str, more: str = "") -> list[tuple[str, int, str]]:
    with pytest.raises(TopologyError) as caught:
        loaded(rollout, more)
    return [(one.code, one.where.line, one.what) for one in caught.value.problems]


def test_values_and_defaults() -> None:
    found = loaded(
        f"rollout:\n soak: 10m\n gates: {{lag: ignored, mirrors: running, wait: 0s}}\n waves:\n{WAVES}"
    ).rollout
    assert found is not None
    assert (found.soak_ms, [wave.soak_ms for wave in found.waves]) == (600_000, [None, 3_600_000])
    assert found.gates == Gates(0, 0, None, MirrorGate.RUNNING, 0)
    plain = loaded(f"rollout:\n waves:\n{WAVES}").rollout
    assert plain is not None
    assert plain.gates == Gates(0, 0, 60_000, MirrorGate.HEALTHY, 300_000)


@pytest.mark.parametrize("rollout", ["", "rollout:\n", "rollout: {}\n"])
def test_without_waves_there_is_no_rollout(rollout: str) -> None:
    assert loaded(rollout).rollout is None


def test_all_problems_at_once() -> None:
    text = """rollout:
  soak: 10
  pace: slow
  gates: {lag: soon, mirrors: well, offline_partitions: -1}
  waves:
    - {name: canary, regions: [eu-wst]}
    - {name: canary, clusters: [wset]}
    - {name: empty}
"""
    found = problems(text)
    assert [(code, line) for code, line, _ in found] == [
        ("bad-duration", 6),
        ("unknown-field", 7),
        ("bad-duration", 8),
        ("unknown-value", 8),
        ("out-of-range", 8),
        ("unknown-region", 10),
        ("duplicate-name", 11),
        ("unknown-cluster", 11),
        ("empty-wave", 12),
    ]


def test_every_cluster_in_exactly_one_wave() -> None:
    left = problems("rollout:\n  waves:\n    - {name: a, regions: [eu-west]}\n")
    assert [(code, what) for code, _, what in left] == [
        ("cluster-in-no-wave", "rollout: clusters hub, west are in no wave")
    ]
    twice = problems(f"rollout:\n waves:\n{WAVES}  - {{name: again, clusters: [east, hub]}}\n")
    assert [code for code, _, _ in twice] == ["cluster-in-two-waves", "cluster-in-two-waves"]
    assert twice[0][2] == "rollout: cluster east is in the waves canary and again"
    same = problems("rollout:\n waves:\n  - {name: a, regions: [eu-west, us-east], clusters: [east, hub]}\n")
    assert [(code, what) for code, _, what in same] == [
        ("cluster-in-two-waves", "rollout: cluster east is in wave a twice")
    ]


FLOWS = """flows:
  there: {source: east, target: west, topics: [orders]}
  back: {source: west, target: east, topics: [pay]}
"""


def test_clusters_that_back_each_other_up_go_apart() -> None:
    one = "rollout:\n waves:\n  - {name: a, clusters: [hub]}\n  - {name: b, clusters: [east, west]}\n"
    ((code, line, what),) = problems(one, FLOWS)
    assert (code, line) == ("backup-in-same-wave", 11)
    assert what == "rollout: east and west are both in wave b, and they back each other up (flows there and back)"
    assert loaded(f"rollout:\n waves:\n{WAVES}", FLOWS).rollout is not None
    assert loaded(one, FLOWS.splitlines()[0] + "\n" + FLOWS.splitlines()[1] + "\n").rollout is not None


def test_an_edit_of_the_rollout_is_reported() -> None:
    before, after = loaded(""), loaded(f"rollout:\n waves:\n{WAVES}")
    (new,) = compare(before, after).items
    assert (new.sign.value, new.kind) == ("+", "rollout")
    (gone,) = compare(after, before).items
    assert "without gates" in gone.means
    longer = loaded(f"rollout:\n soak: 5m\n waves:\n{WAVES}")
    (edit,) = compare(after, longer).items
    assert [(one.path, one.before, one.after) for one in edit.fields] == [("waves.canary.soak", "0s", "5m")]
