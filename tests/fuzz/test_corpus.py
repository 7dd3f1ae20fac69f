"""What the exploration kept is read without a surprise; and it would notice one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import explore
from tests.fuzz.explore import CORPUS, Exploration, inputs
from tests.fuzz.inputs import Maker
from tests.fuzz.targets import TARGETS

KEPT = inputs(CORPUS)


@pytest.mark.parametrize("target", TARGETS)
def test_kept_inputs_end_as_documented(target: str) -> None:
    mine = [data for name, data in KEPT if name == target]
    assert mine, "each reader has inputs of its own"
    for data in mine:
        TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_fresh_inputs_end_as_documented(target: str) -> None:
    maker = Maker(1)
    for _ in range(60):
        TARGETS[target](maker.fresh(target))


def test_the_same_seed_makes_the_same_inputs() -> None:
    assert [Maker(7).fresh(name) for name in TARGETS] == [Maker(7).fresh(name) for name in TARGETS]


def test_a_defect_is_written_down_and_what_leads_somewhere_new_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def feed(data: bytes) -> str:
        if data[:1] > b"\x80":
            raise ZeroDivisionError
        return "low"

    monkeypatch.setattr(explore, "TARGETS", {"lock": feed})
    exploration = Exploration(3, tmp_path / "corpus", tmp_path / "defects")
    exploration.explore(0.2)
    assert list(exploration.defects) == ["lock: ZeroDivisionError " + next(iter(exploration.defects)).split(" ", 2)[2]]
    (defect,) = (tmp_path / "defects").iterdir()
    assert defect.read_bytes()[:1] > b"\x80"
    assert {target for target, _ in inputs(tmp_path / "corpus")} == {"lock"}
    assert exploration.tidy() >= 0
    assert len(inputs(tmp_path / "corpus")) == 1, "one stands for all that lead to the same"
