"""A plan in text, Markdown and HTML, all from one outline.

Belongs here: sections of a plan and their order. Not here: other documents (`reports`).
"""
