"""The mirror host: keeps mirror jobs running as records in Kafka ask, and asks hosts on behalf of ``apply``.

Belongs here: the control topic, leases of hosts, what a host accepts. Not here: submitting and replacing an application
(`runner`), the records themselves (`model.state.mirror_control`).
"""
