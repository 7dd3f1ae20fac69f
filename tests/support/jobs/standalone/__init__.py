"""A standalone Spark cluster of this machine for tests.

Belongs here: what starts, kills and asks master and workers. Not here: what is run on them.
"""
