"""The Spark driver: discovers topics, keeps the state of each flow, shares rates, takes over from an older job.

Belongs here: what happens once for each mirror. Not here: copying (`lane`), handing out work (`leases`).
"""
