"""The Spark driver: discovers topics, takes flows over, keeps leases and status going.

Belongs here: what happens once for each mirror. Not here: what it knows of its flows (`board`), handing out work
(`leases`), copying (`lane`).
"""
