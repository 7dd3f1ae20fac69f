"""The map of an environment as SVG, HTML, Mermaid, DOT and JSON.

Belongs here: layout and drawing. Not here: what is drawn (`engine.topology_map`), the pages around it (`render.plan`).
"""
