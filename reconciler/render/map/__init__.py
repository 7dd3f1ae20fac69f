"""The map of an environment as SVG, HTML, Mermaid, DOT and JSON.

Belongs here: layout and drawing. Not here: contents of the map (`engine.topology_map`), pages (`render.plan`).
"""
