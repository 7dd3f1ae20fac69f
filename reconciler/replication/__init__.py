"""What both programs must agree on to the letter: topic names, filters, positions, pauses, the hand-over, JSON.

Belongs here: rules that the reconciler and the mirror job both apply. Not here: anything only one of them needs.
"""
