"""What the sandbox needs installed: prerequisites, Kafka's jars with their digests.

Belongs here: `install.sh` and what it calls before packages are there. Not here: running brokers (`brokers`).
"""
