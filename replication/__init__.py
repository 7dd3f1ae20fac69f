"""What both programs must agree on, letter by letter: topic names, filters, references, and the names of positions.

The reconciler and the mirror job never import each other; each imports this package, which imports only the
standard library.
"""
