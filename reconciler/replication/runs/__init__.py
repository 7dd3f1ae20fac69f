"""Runs of a mirror's application: data exchanged between the starting process and the driver.

Belongs here: files of run folders, requests and results of verify, and records of deploy mode cluster. Not here: the
definition of a mirror (``handover``).
"""
