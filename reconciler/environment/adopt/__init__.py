"""Writes YAML from live clusters, and accepts drift into existing files.

Belongs here: live values to YAML text, by kind. Not here: configurations of other tools (`importers`).
"""
