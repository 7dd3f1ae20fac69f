"""Conditions of the mirror job after which a flow may be told to go on, counted in what it loses."""

from __future__ import annotations

CONTINUABLE = ("corrupt_source_batch", "record_refused", "source_retention_passed", "source_truncated")
"""What is lost with each of these is known exactly, and what comes after it can be copied. All others always stop."""
