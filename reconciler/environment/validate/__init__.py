"""Rules over the whole environment, by kind: every problem at once, each with file and line.

Belongs here: what needs more than one entry to be judged. Not here: single fields (`parse`), live clusters
(`engine.guards`).
"""
