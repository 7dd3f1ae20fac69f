"""Access tokens for OAUTHBEARER, one module for each ``sasl.oauthbearer.method``.

Belongs here: how a token is asked for at a provider. Not here: keeping and renewing it (``auth.oauth``).
"""
