"""All tests. `reconciler` and `mirror` have the folders of the source; `support` is what tests share."""
