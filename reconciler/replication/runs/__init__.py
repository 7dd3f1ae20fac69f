"""Runs of a mirror's application: what the process that starts one and its driver exchange.

Belongs here: files of run folders, what verify is asked and finds among them, and records of deploy mode cluster.
Not here: what is copied (``handover``).
"""
