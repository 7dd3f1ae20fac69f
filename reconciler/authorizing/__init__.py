"""What a set of access rules allows, before any broker is asked: Kafka's StandardAuthorizer, worked out here.

Border: rules and requests in, decisions out. Which rules there will be is worked out by ``diffing``.
"""

from __future__ import annotations

from reconciler.authorizing.deciding import Decision, Request, Rulebook

__all__ = ["Decision", "Request", "Rulebook"]
