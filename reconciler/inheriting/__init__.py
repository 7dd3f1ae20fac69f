"""Positions of a MirrorMaker 2 taken over into the ``start`` of a flow: read, judged, written into its YAML."""

from __future__ import annotations

from reconciler.inheriting.judging import Inheritance, Left, Topic, World, inherit, wanted
from reconciler.inheriting.records import Records, Stored, positions
from reconciler.inheriting.writing import merged, write_starts, written

__all__ = [
    "Inheritance",
    "Left",
    "Records",
    "Stored",
    "Topic",
    "World",
    "inherit",
    "merged",
    "positions",
    "wanted",
    "write_starts",
    "written",
]
