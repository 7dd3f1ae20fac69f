"""Plans, drift and outcomes for people (text, Markdown, HTML) and machines (JSON), always from the same values.

Verdict line first; nothing important is left out, and what is equal is folded. Border: returns text, prints nothing.
Each format is a module of its own, and nothing is imported here: a command waits for no format that it does not show.
"""
