"""`make demo`: real flight records mirrored by the real job, proved equal, then three edits.

Belongs here: the script of the demo and its data. Not here: anything the program needs.
"""
