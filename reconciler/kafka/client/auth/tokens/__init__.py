"""Access tokens for OAUTHBEARER, one module for each ``sasl.oauthbearer.method``.

Belongs here: requesting a token from a provider. Not here: caching and renewing it (``auth.oauth``).
"""
