"""Flows: routes of topics, loops, provenance, and explanations why a flow carries a topic or not.

Belongs here: routes over all flows. Not here: settings of remote topics (`resources.topics`).
"""
