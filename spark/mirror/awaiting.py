"""A lane that is begun before its flow is taken over waits for the claim; nothing is fenced before."""

from __future__ import annotations

from mirror.lanes import Control

LOOK_S = 0.01


def leaving(control: Control) -> bool:
    return control.stopping() or control.lease_over()
