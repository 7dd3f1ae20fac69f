"""What the project depends on: the locks, and what is made from them.

Belongs here: the bill of materials, the list of licences, the question whether advisories are known.
Not here: installing (`sandbox/reconciler_sandbox/install`, `.github/scripts/install`).
"""
