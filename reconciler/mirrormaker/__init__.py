"""MirrorMaker 2's configuration as an environment of this project.

Border: texts in, texts and words out. Files are read and written by ``importing``.
"""
