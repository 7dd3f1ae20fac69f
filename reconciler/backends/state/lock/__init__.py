"""The lock of an environment: in Kafka, or in a file where there is no cluster to ask.

Belongs here: acquiring, renewing, stealing, releasing. Not here: who holds it and for how long (`model.state.lock`).
"""
