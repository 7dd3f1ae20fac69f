"""Languages of topic names: regular expressions as automata, for loop proofs and overlap checks.

Belongs here: questions about sets of names. Not here: what follows for flows (the folder above).
"""
