"""Carries out a plan: the same list in the same order as the preview. A failure skips only what needs it.

Belongs here: order, retries, limits and outcomes of a run, through the ports of `model.ports`. Not here: deciding what
should be (`engine.plan`), I/O (`backends`).
"""
