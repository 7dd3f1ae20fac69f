"""The Spark driver: discovers topics, takes flows over, keeps leases and status going.

Belongs here: tasks that run once for each mirror. Not here: state of its flows (`board`), handing out work (`leases`),
copying (`lane`).
"""
