"""Rollouts over several regions: waves in order, gates before and after each, soak, and going on where a run ended.

Border: nouns in, nouns out; the world is what ``conducting`` is given.
"""

from reconciler.rollout.assigning import course_of, in_waves, until_wave

__all__ = ["course_of", "in_waves", "until_wave"]
