"""Authentication: librdkafka's security settings as TLS contexts and SASL logins.

Belongs here: which settings are honoured, and each mechanism. Not here: sockets (`client.dial`).
"""
