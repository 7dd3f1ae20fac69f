"""Plans, drift and outcomes for people (text) and machines (JSON), always from the same values.

Verdict line first; nothing important is left out, and what is equal is folded. Border: returns text, prints nothing.
"""

from reconciler.rendering.drift import drift_json, drift_text
from reconciler.rendering.outcomes import outcomes_json, outcomes_text
from reconciler.rendering.style import Style
from reconciler.rendering.text import plan_json, plan_text

__all__ = ["Style", "drift_json", "drift_text", "outcomes_json", "outcomes_text", "plan_json", "plan_text"]
