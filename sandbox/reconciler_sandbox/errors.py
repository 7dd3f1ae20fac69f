"""Errors of the sandbox: what can go wrong on this machine."""

from __future__ import annotations

from reconciler.errors import ReconcilerError


class SandboxError(ReconcilerError):
    """A tool, a jar, a port or a broker process of the sandbox is not as needed."""
