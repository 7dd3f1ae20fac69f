"""Conditions after which a flow may be told to go on, and what it loses by that."""

from __future__ import annotations

CONTINUABLE = ("corrupt_source_batch", "record_refused", "source_retention_passed", "source_truncated")
"""What is lost with each of these is known exactly, and what comes after it can be copied. All others always stop."""
