"""The mirror host: keeps mirror jobs running by records in Kafka, and writes these records on behalf of ``apply``.

Belongs here: the control topic, leases of hosts, a host's allow list. Not here: submitting and replacing applications
(`runner`), the records themselves (`model.state.mirror_control`).
"""
