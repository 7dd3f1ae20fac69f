"""Test data of the benchmarks: records loaded, counted and compared."""
