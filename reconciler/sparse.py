"""Fields that a document or a digest holds only when they say something: what an older release wrote stays readable,
and an environment that does not use a feature keeps its digests and its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

SPARSE: Mapping[str, Any] = {"sparse": True}
"""For ``field(metadata=SPARSE)`` of a field with a default."""


@cache
def sparse_fields(kind: type) -> Mapping[str, Any]:
    """Name -> default of the fields of a dataclass that are left out while they hold that default."""
    return {one.name: one.default for one in fields(kind) if one.metadata.get("sparse")}
