"""What git declares: clusters, topics, flows, mirrors, rollout, and the rules that apply to them.

Belongs here: values built from YAML. Not here: how they are built (`environment.declarations`), live values
(`model.live`).
"""
