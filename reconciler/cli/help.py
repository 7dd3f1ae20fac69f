"""The end of a command's help text: examples and exit codes."""

ENDING = (
    "Exit codes: 0 nothing to do, or done; 1 error or unknown; 2 changes are pending, or sides differ; 3 blocked by a"
    " guard; 4 stale plan; 5 partly applied; 6 lock held; 130 interrupted. Pages: docs/ of the project."
)
"""Of the program."""

CHANGED = "0 done; 1 error; 6 lock held"
DONE = "0 done; 1 error"


def ending(codes: str, *examples: str) -> str:
    """Paragraphs: lines within one are joined when help is printed."""
    return "\n\n".join((*(f"reconciler {example}" for example in examples), f"Exit codes: {codes}."))
