"""Carries out a plan: the same list in the same order as the preview. A failure skips only what needs it.

Border: asks nothing of the world but through the ports, decides nothing about what should be.
"""

from reconciler.applying.carrying_out import apply
from reconciler.applying.restraint import (
    Caution,
    Gate,
    OneGo,
    Progress,
    Promotion,
    Silent,
    exit_code,
    open_gate,
    refuse_if_blocked,
)

__all__ = [
    "Caution",
    "Gate",
    "OneGo",
    "Progress",
    "Promotion",
    "Silent",
    "apply",
    "exit_code",
    "open_gate",
    "refuse_if_blocked",
]
