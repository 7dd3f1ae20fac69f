"""The commands of the CLI, one module for each group: arguments, and the operation that each command calls.

Belongs here: Typer functions. Not here: help endings (`cli.help`), work (`operations`).
"""
