"""The certificate of the control channel, as the driver's Java makes it: one that OpenSSL and others take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_der_private_key
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from reconciler_mirror.leases.channel_listener import made_by_java
from reconciler_sandbox.install import prerequisites


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    port = launch_gateway(java_path=prerequisites.java(), die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield gateway
    gateway.shutdown()


@pytest.mark.slow
def test_it_is_signed_by_its_own_key_and_no_two_are_the_same(gateway: JavaGateway) -> None:
    identity, other = made_by_java(gateway.jvm), made_by_java(gateway.jvm)
    certificate = x509.load_der_x509_certificate(identity.certificate)
    certificate.verify_directly_issued_by(certificate)
    key = load_der_private_key(identity.key, None)
    assert key.public_key() == certificate.public_key()
    assert identity.pin != other.pin
    assert identity.context().get_ca_certs() == []
    assert "key" not in repr(identity)
