"""Plans, drift and outcomes for people (text, Markdown, HTML) and machines (JSON), always from the same values.

Verdict line first; nothing important is left out, and what is equal is folded. Border: returns text, prints nothing.
"""

from reconciler.rendering.drift import drift_json, drift_text
from reconciler.rendering.fitting import Handoff, marker
from reconciler.rendering.html import drift_html, outcomes_html, plan_html
from reconciler.rendering.markdown import drift_markdown, outcomes_markdown, plan_markdown
from reconciler.rendering.outcomes import outcomes_json, outcomes_text
from reconciler.rendering.style import Style
from reconciler.rendering.text import plan_json, plan_text

__all__ = [
    "Handoff",
    "Style",
    "drift_html",
    "drift_json",
    "drift_markdown",
    "drift_text",
    "marker",
    "outcomes_html",
    "outcomes_json",
    "outcomes_markdown",
    "outcomes_text",
    "plan_html",
    "plan_json",
    "plan_markdown",
    "plan_text",
]
