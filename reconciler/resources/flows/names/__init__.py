"""Languages of topic names: regular expressions as automata, for loop proofs and overlap checks.

Belongs here: sets of names. Not here: conclusions for flows (the folder above).
"""
