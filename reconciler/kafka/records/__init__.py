"""Record batches and records: decode, patch, re-encode, compress; also the two old formats.

Belongs here: bytes of batches. Not here: requests that carry them (`protocol`).
"""
