"""Our own connections to Kafka for the two applications.

Belongs here: making clients from the hand-over. Not here: using them (`lane`), or librdkafka (`verify.second_client`).
"""
