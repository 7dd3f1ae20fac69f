"""Work on single records where a flow asks for it: filters, added headers, provenance.

Belongs here: decoding batches and encoding them again. Not here: the formats (`reconciler.kafka.records`).
"""
