"""Who may do what: declared rules read and checked, expanded to Kafka's 7-tuples, derived by flows, and compared.

``wished`` says which rules should be on each cluster and why; ``diffing.access`` compares. Border: nothing here asks a
cluster; an authorizer's verdict over these rules belongs elsewhere.
"""

from reconciler.access.wishes import Wished, Wishes, access_clusters, wished

__all__ = ["Wished", "Wishes", "access_clusters", "wished"]
