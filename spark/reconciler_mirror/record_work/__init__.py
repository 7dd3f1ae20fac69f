"""Work on single records where a flow asks for it: filters, added headers, provenance.

Belongs here: batches decoded and encoded again. Not here: the formats (`reconciler.kafka.records`).
"""
