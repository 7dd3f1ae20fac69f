"""What git declares: clusters, topics, flows, mirrors, rollout, and the rules that apply to them.

Belongs here: values built from YAML. Not here: building them (`environment.declarations`), live values (`model.live`).
"""
