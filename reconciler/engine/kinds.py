"""Every kind of resource, as one tuple that the engine loops over; CONTRIBUTING.md.

Border: the records themselves are in ``resources/<kind>/kind.py``; rules between kinds are in ``engine.plan.order``.
"""

from typing import Any

from reconciler.model.changes import Change
from reconciler.resources.acls.kind import KIND as ACLS
from reconciler.resources.kind import Kind
from reconciler.resources.mirrors.kind import KIND as MIRRORS
from reconciler.resources.quotas.kind import KIND as QUOTAS
from reconciler.resources.replicas.kind import KIND as REPLICAS
from reconciler.resources.topics.kind import KIND as TOPICS
from reconciler.resources.users.kind import KIND as USERS

KINDS: tuple[Kind[Any], ...] = (TOPICS, ACLS, USERS, QUOTAS, REPLICAS, MIRRORS)
"""In the order in which verdicts name them."""
STATES = {about: state for kind in KINDS for about, state in kind.states.items()}
"""Subject of a plan's basis -> its state in words."""
_KIND_OF = {change: kind for kind in KINDS for change in kind.changes}


def kind_of(change: Change) -> Kind[Any]:
    """The kind of a change. Raises TypeError for an unknown one, which would otherwise silently be skipped."""
    try:
        return _KIND_OF[type(change)]
    except KeyError:
        raise TypeError(f"no kind knows changes of class {type(change).__name__}") from None
