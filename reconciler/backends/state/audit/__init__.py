"""The audit record of each run: written to a file and to a topic, read back from the topic.

Belongs here: readers and writers of audit lines. Not here: what a line says (`engine.apply.audit_lines`).
"""
