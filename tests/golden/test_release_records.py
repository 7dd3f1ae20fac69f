"""What the release before left on clusters and machines: each is read, and written again as the same document."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from reconciler_mirror.lane.positions import LanePosition

from reconciler.model.state import audit_chain
from reconciler.render.cutover import PLAN_FILE
from reconciler.replication.handover_reader import parse
from reconciler.replication.offsets import position_metadata
from tests.golden.formats import CUTOVER, FORMATS, PLACE, RECORDS, RELEASE, SCOPE, frozen
from tests.support.paths import ROOT

FROZEN = json.loads(RECORDS.read_text("utf-8"))
LATER = 99
VERSIONED = [name for name, record in FROZEN.items() if "format_version" in record and name not in ("left", "pause")]


def test_every_format_has_a_frozen_record() -> None:
    assert FORMATS.keys() == FROZEN.keys()


def test_every_record_that_a_cluster_keeps_has_a_frozen_one() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "reconciler").rglob("*.py")))
    kept = set(re.findall(r"= JsonRecord\((\w+)", sources)) - {"_Written"}  # a pause, which is read as one
    assert kept <= {type(FORMATS[name].read(record)).__name__ for name, record in FROZEN.items()}
    assert len(kept) > 8


@pytest.mark.parametrize("name", FORMATS)
def test_a_record_of_the_release_before_is_read_and_written_again(name: str) -> None:
    """What this release adds is added; the rest stays as it was."""
    written = FORMATS[name].write(FORMATS[name].read(FROZEN[name]))
    assert _of_both(written, FROZEN[name]) == FROZEN[name]


def _of_both(written: Any, was: Any) -> Any:
    """``written`` without the fields that ``was`` does not have."""
    if isinstance(written, dict) and isinstance(was, dict):
        return {key: _of_both(inner, was[key]) for key, inner in written.items() if key in was}
    if isinstance(written, list) and isinstance(was, list) and len(written) == len(was):
        return [_of_both(*pair) for pair in zip(written, was, strict=True)]
    return written


def test_the_next_frozen_copy_has_all_fields_and_is_read() -> None:
    following = frozen(FROZEN)
    for name, record in following.items():
        read = FORMATS[name].read(record)
        assert FORMATS[name].write(read) == record, name
    fields = json.loads(following["position"]["metadata"])
    assert fields.keys() >= {*position_metadata._OF_THE_PLACE, *"macpshw"} - {"u"}


def test_a_frozen_position_is_proved_and_names_its_owner() -> None:
    position = FORMATS["position"].read(FROZEN["position"])
    assert isinstance(position, LanePosition)
    assert position.proved
    for name in ("claim", "same", "lost", "marked", "topic_id"):
        assert getattr(position, name), name
    at = FROZEN["position"]
    assert position_metadata.mark_of(PLACE, at["offset"], at["metadata"]).owner.environment
    assert not FORMATS["position_of_another_client"].read(FROZEN["position_of_another_client"]).proved


@pytest.mark.parametrize("name", VERSIONED)
def test_a_record_of_a_later_format_is_refused_by_its_number(name: str) -> None:
    later = {**FROZEN[name], "format_version": LATER}
    if "oldest_reader" in later:
        later["oldest_reader"] = LATER
    with pytest.raises(ValueError, match=f"version {LATER}.* reads .*1"):
        FORMATS[name].read(later)


def test_versions_are_looked_at() -> None:
    assert {"lock", "applied", "rollout", "journal", "status", "desired", "lease"} <= {*VERSIONED}


def test_a_later_chunk_of_the_offset_map_is_refused_by_its_number() -> None:
    chunk = FROZEN["offset_map"]
    later = f"{LATER:02x}{chunk['value'][2:]}"
    with pytest.raises(ValueError, match=f"format {LATER}, not 1"):
        FORMATS["offset_map"].read({**chunk, "value": later})


def test_advice_of_a_later_release_is_left_alone() -> None:
    assert FORMATS["left"].read({**FROZEN["left"], "format_version": LATER}) is None


def test_what_pauses_a_flow_in_a_later_format_pauses_it_here() -> None:
    assert FORMATS["pause"].read({**FROZEN["pause"], "format_version": LATER}).scope == SCOPE


def test_a_later_hand_over_is_refused_by_its_number() -> None:
    for path in RELEASE.glob("*.handovers.json"):
        for text in json.loads(path.read_text("utf-8")).values():
            with pytest.raises(ValueError, match=f"format_version {LATER}; this mirror job reads 1"):
                parse(json.dumps({**json.loads(text), "format_version": LATER}))


def test_a_plan_of_a_cut_over_of_the_release_before_is_read_as_written() -> None:
    saved = CUTOVER.read_text("utf-8")
    assert PLAN_FILE.dumps(PLAN_FILE.loads(saved)) == saved


def test_the_audit_record_of_the_release_before_is_a_whole_chain() -> None:
    lines = [json.loads(line) for line in (RELEASE / "audit.jsonl").read_text("utf-8").splitlines()]
    assert {line["kind"] for line in lines} >= {"begin", "change", "end"}
    assert audit_chain.check(lines).whole
    lines[1]["id"] = "another"
    assert not audit_chain.check(lines).whole
