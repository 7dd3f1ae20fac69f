"""From the desired environment and the live state to one ordered plan, and the loop that carries it out. No I/O.

Belongs here: what concerns all kinds of resources together. Not here: rules of one kind (`resources`), I/O
(`backends`).
"""
