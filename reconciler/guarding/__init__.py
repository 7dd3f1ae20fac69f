"""Guards against losing by accident: protected names, prune, a wish that shrank, a cluster nobody has met.

Border: nouns in, findings out; each guard is a module of its own.
"""
