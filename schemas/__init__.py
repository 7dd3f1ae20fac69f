"""JSON Schemas of everything that crosses a border: YAML in, plans and drift reports out, the hand-over to Spark."""
