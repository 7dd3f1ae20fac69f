"""Values to words: plans and reports for people (text, Markdown, HTML) and machines (JSON).

Belongs here: wording, layout, escaping. Not here: deciding what to report (`engine`).
"""
