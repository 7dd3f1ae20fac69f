"""All tests. ``fakes`` and ``builders`` are shared."""
