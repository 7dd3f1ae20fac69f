"""Each condition that the mirror can tell and each alert has a runbook: a section that links reach, with what to do."""

from __future__ import annotations

import re

import pytest
import yaml

from reconciler.replication.names import CONDITION_CODES, CONTINUABLE, RUNBOOKS, runbook_of
from tests.support.paths import ROOT

RULES = [
    rule
    for group in yaml.safe_load((ROOT / "docs/grafana/alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
BY_CODE = "{{ if $labels.runbook }}{{ $labels.runbook }}{{ else }}" + RUNBOOKS + "#{{ $labels.code }}{{ end }}"
"""How Prometheus links to the runbook of a condition: by the job's label, which an earlier release does not have."""


def sections(page: str) -> dict[str, str]:
    """Anchors, as GitHub and the site make them of headings of one word, and the text below each."""
    parts = re.split(r"^#{2,3} `?(\w+)`?\n", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE)
    return {anchor.lower(): text.partition("\n## ")[0] for anchor, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("code", CONDITION_CODES)
def test_a_condition_has_a_runbook(code: str) -> None:
    page, _, anchor = runbook_of(code).partition("#")
    about, separator, todo = sections(page)[anchor].partition("**To do:** ")
    assert anchor == code
    assert separator
    assert min(len(about.strip()), len(todo.strip())) > 10


def test_there_is_a_runbook_of_nothing_else() -> None:
    assert sections(RUNBOOKS).keys() == set(CONDITION_CODES)
    assert set(CONTINUABLE) < set(CONDITION_CODES)


def test_every_code_is_one_that_the_job_reports() -> None:
    """That it tells no other is what the types say."""
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "spark/reconciler_mirror").rglob("*.py"))
    assert [code for code in CONDITION_CODES if f'"{code}"' not in sources] == []


def test_a_code_of_a_later_release_leads_to_the_page() -> None:
    assert runbook_of("of_a_later_release") == RUNBOOKS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_runbook(rule: dict[str, dict[str, str]]) -> None:
    url = rule["annotations"]["runbook_url"]
    page, _, anchor = url.partition("#")
    if url == BY_CODE:
        assert "by (flow, code, runbook)" in str(rule["expr"]), "both are labels of what the rule tells"
    else:
        assert len(sections(page)[anchor].strip()) > 50
    assert str(rule["alert"]).lower() in sections("docs/mirror/alerts.md")


def test_there_is_a_runbook_of_no_other_alert() -> None:
    assert sections("docs/mirror/alerts.md").keys() == {str(rule["alert"]).lower() for rule in RULES}
