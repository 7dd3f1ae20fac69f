"""`serve`: the live page of an environment. It reads, renders and answers requests; it changes and stores nothing.

Belongs here: readers on threads, access, the web server. Not here: contents of the pages (`render.live`).
"""
