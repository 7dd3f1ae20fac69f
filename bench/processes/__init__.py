"""Processes of the benchmarks: brokers, proxies, their CPU time, and their end."""
