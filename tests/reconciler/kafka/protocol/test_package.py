"""What of kafka-python is imported, and that its clients are still there for who asks for them."""

from __future__ import annotations

import subprocess
import sys


def test_its_clients_are_imported_by_who_asks_for_them_alone() -> None:
    program = """
import sys
import reconciler.kafka.protocol.generated as ours
assert "kafka.protocol.metadata" in sys.modules
assert not {"kafka", "kafka.admin", "kafka.consumer", "kafka.producer", "kafka.net"} & sys.modules.keys()
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, errors
from kafka.protocol.metadata import MetadataRequest
assert MetadataRequest is ours.MetadataRequest
"""
    subprocess.run([sys.executable, "-c", program], check=True)
