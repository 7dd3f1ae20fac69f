"""Strimzi's KafkaMirrorMaker2 resource as MirrorMaker 2's own settings.

Belongs here: fields of the custom resource. Not here: what the settings become (the folder above).
"""
