"""What becomes of each security setting that librdkafka 2.16 knows, or names in an error, and of ours, on our own
connections; and which no client of librdkafka is given either (forbidden)."""

from __future__ import annotations

_WORDS = {
    "honoured": """
        security.protocol sasl.mechanism sasl.mechanisms sasl.username sasl.password
        sasl.oauthbearer.method sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
        sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
        sasl.oauthbearer.scope sasl.oauthbearer.extensions sasl.oauthbearer.token.endpoint.url
        sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.config
        enable.sasl.oauthbearer.unsecure.jwt https.ca.location https.ca.pem ssl.ca.location ssl.ca.pem
        ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.pem ssl.key.password ssl.crl.location
        sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.keytab
        ssl.cipher.suites ssl.curves.list ssl.endpoint.identification.algorithm enable.ssl.certificate.verification
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file
        sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
        sasl.oauthbearer.audience sasl.oauthbearer.client.authentication sasl.oauthbearer.aws.region
        sasl.oauthbearer.aws.role_arn sasl.oauthbearer.aws.role_session_name sasl.oauthbearer.aws.role_external_id
        sasl.oauthbearer.aws.profile sasl.oauthbearer.azure.tenant_id sasl.oauthbearer.azure.certificate.location
        sasl.oauthbearer.gcp.credentials.location
    """,
    "harmless": """
        sasl.oauthbearer.sub.claim.name
    """,
    "forbidden": """
        ssl.providers ssl.engine.location ssl.engine.id ssl.certificate.verify_cb sasl.jaas.config
        ssl.truststore.location sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    """,
    "refused": """
        ssl.keystore.location ssl.keystore.password ssl.sigalgs.list ssl.ca.certificate.stores
        sasl.oauthbearer.assertion.jwt.template.file
    """,
}

VERDICTS: dict[str, tuple[str, ...]] = {verdict: tuple(names.split()) for verdict, names in _WORDS.items()}
