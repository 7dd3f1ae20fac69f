"""Values that commands report: failover, verify, doctor, drift, offsets, before they become text or JSON.

Belongs here: one module for each report. Not here: wording (`render.reports`).
"""
