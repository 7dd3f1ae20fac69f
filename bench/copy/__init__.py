"""Copies the same records with each system, and measures speed, CPU and latency."""
