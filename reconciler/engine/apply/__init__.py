"""Carries out a plan: the same changes in the same order as in the preview. A failure skips only dependent changes.

Belongs here: order, retries, limits and outcomes of a run, through the ports of `model.ports`. Not here: deciding
changes (`engine.plan`), I/O (`backends`).
"""
