"""`serve`: the live page of an environment. Reads, renders and answers; it changes nothing and keeps nothing.

Belongs here: readers on threads, who may ask, the web server. Not here: what the pages say (`render.live`).
"""
