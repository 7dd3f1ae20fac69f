"""Fuzzing of what reads bytes that others wrote: answers of brokers, batches of producers, records of state topics.

``targets`` are what is fed, ``inputs`` makes and mutates bytes, ``explore`` looks for inputs that lead somewhere new,
and keeps them in ``corpus.txt``; ``test_corpus`` replays those with all other tests. Not here: YAML, which
``tests/e2e/hostile`` makes up.
"""
