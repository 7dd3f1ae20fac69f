"""Each service has a page, whose settings an environment takes, and which marks what is tested and what is read."""

from __future__ import annotations

import re

import pytest
import yaml

from reconciler.environment.load import load
from reconciler.model.environment.services import SERVICES
from tests.support.paths import ROOT

CONNECTING = ROOT / "docs" / "begin" / "connecting"


def test_each_service_has_a_page() -> None:
    named = set(re.findall(r"\[`([\w-]+)`\]\(services/\1\.md\)", (CONNECTING / "services.md").read_text()))
    assert {*SERVICES} == named == {page.stem for page in (CONNECTING / "services").iterdir()}


@pytest.mark.parametrize("service", SERVICES)
def test_its_settings_are_taken_and_its_facts_are_marked(service: str) -> None:
    page = (CONNECTING / "services" / f"{service}.md").read_text()
    assert "| tested | read |" in page
    for block in re.findall(r"```yaml\n(.*?)```|`(client: \{.*?\})`", page, re.DOTALL):
        cluster = {"bootstrap_servers": ["b1.example.net:9093"], "service": service, **yaml.safe_load("".join(block))}
        if cluster["client"]["sasl.mechanism"] != "OAUTHBEARER":
            cluster["client"] |= {"sasl.username": "u", "sasl.password": "${env:PASSWORD}"}
        text = yaml.safe_dump({"clusters": {"east": cluster}})
        assert load({"clusters.yaml": text}, "prod").clusters["east"].service == service
