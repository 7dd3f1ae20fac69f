"""After each wave of access changes: what the cluster shows, who may do what by it, and whether we still may.

A wave is what one request changes: rules of one stage on one cluster, a thousand at most. One that fails its probe is
undone. Border: asks through ports; which changes there are, and in which order, is decided elsewhere.
"""

from reconciler.probing.logins import RulesAlone
from reconciler.probing.waves import AccessWaves, Conduct, Wave

__all__ = ["AccessWaves", "Conduct", "RulesAlone", "Wave"]
