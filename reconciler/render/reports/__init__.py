"""Every document except the plan, one module for each: drift, parity, doctor, verify, failover, explain.

Belongs here: text, Markdown, HTML and JSON of a report. Not here: the plan (`render.plan`).
"""
