"""The scripts of the Spark applications: `mirror_job.py` and `verify_job.py`.

Belongs here: arguments of an application. Not here: its work (`driver`, `verify`).
"""
