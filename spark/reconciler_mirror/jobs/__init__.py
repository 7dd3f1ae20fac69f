"""The scripts that spark-submit is given: `mirror_job.py` and `verify_job.py`.

Belongs here: arguments of an application. Not here: what it does.
"""
