"""How `make docs` makes a site of these pages: links that leave `docs/`, and the pages of reference.

Belongs here: functions from texts of the repository to pages, and the hooks by which mkdocs calls them.
Not here: pages.
"""
