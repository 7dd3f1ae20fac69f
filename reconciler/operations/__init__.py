"""What each command does, from files to exit code: puts backends into the engine and prints the result.

Belongs here: one module for each command. Not here: arguments (`cli`), decisions (`engine`), I/O (`backends`).
"""
