"""Builds the plan: order of changes over all clusters, risk, impact, fingerprints, the saved file.

Belongs here: what is true of a plan as a whole. Not here: the differences it is made of (`engine.diff`, `resources`).
"""
