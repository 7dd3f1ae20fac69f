"""The porch: the only rooms that touch the world. Edges know nouns and ports, never doings."""
