"""Carries out reassignments."""
