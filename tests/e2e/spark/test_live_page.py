"""``serve`` during a planned failover and failback: what it shows is what ``status --format json`` says, within 2 s."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from tests.support.jobs.environments import Running, on_sandbox
from tests.support.jobs.live_page import compared

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.long]


@pytest.fixture
def active_active(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Running]:
    running = on_sandbox("active-active", tmp_path, {"us": plain["east"], "eu": plain["west"]}, {})
    running.apply()
    yield running
    running.stop()


def test_the_page_during_a_failover_says_what_status_says(active_active: Running) -> None:
    active_active.write("us", "orders", 600)
    active_active.read("us", "billing", r"(us\.|eu\.)?orders", 250)
    with compared(active_active) as both:
        for command in ("failover", "failback"):
            active_active.command(f"reconciler {command} environments/active-active us-to-eu --yes")
    assert {page.essentials["lock"] for page in both.page} >= {("free", None)}
    assert len({page.essentials["lock"] for page in both.page}) > 1, "the failover's lock was seen"
