"""The command line: arguments, help texts, completion, and how the program starts.

Belongs here: words a user types and the options they become. Not here: what a command does (`operations`).
"""
