"""The live page: what `serve` shows of an environment, as whole pages and as the parts of them that change.

Belongs here: pages and their parts, from one frozen view. Not here: reading (`operations.serve`), plans
(`render.plan`).
"""
