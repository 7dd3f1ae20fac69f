"""The library makes the class of an answer when it is first asked for: threads that do so at once are all served."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.api_header import ResponseClassRegistry

from reconciler.kafka.protocol import generated

REQUESTS = {request: range(newest + 1) for request, newest in generated.NEWEST.items()}


@pytest.fixture(autouse=True)
def unused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has decoded nothing yet; threads switch as often as they can."""
    monkeypatch.setattr(generated, "_responses", {})
    registry = ResponseClassRegistry._response_class_registry
    of_all_versions = {key: registered[None] for key, registered in registry.items()}
    monkeypatch.setattr(ResponseClassRegistry, "_response_class_registry", of_all_versions)
    for response in of_all_versions.values():
        monkeypatch.setattr(response, "_VERSIONS", {})
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def header(request: Any, version: int) -> Any:
    made = request(version=version)
    made.with_header(correlation_id=1, client_id="test")
    return made.header


def test_threads_that_decode_a_first_answer_at_once_leave_no_dead_class() -> None:
    for request, versions in REQUESTS.items():
        for version in versions:
            together = threading.Barrier(4)

            def ask(request: Any = request, version: int = version, together: threading.Barrier = together) -> None:
                asked = header(request, version)
                together.wait()
                generated._response_of(asked)

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            gc.collect(1)
    for request, versions in REQUESTS.items():
        for version in versions:
            assert generated._response_of(header(request, version)).name.endswith("Response")
