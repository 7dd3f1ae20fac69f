"""Notices arrive at a server as each format has them; one that does not arrive is a line without a secret."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import jsonschema
import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.hooks import Notice, NoticeEvent, Webhook, WebhookFormat
from reconciler.model.environment.topology import Topology
from reconciler.model.schemas import schema
from reconciler.operations.session.notices import notify, post
from tests.support.builders import topology
from tests.support.fakes.receiver import Receiver, receiving

NOTICE = Notice(NoticeEvent.VERDICT, "prod", "STOPPED", "flow a: <!channel> & x", ("orders[1](http://evil)_0: *why*",))


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as server:
        monkeypatch.setenv("HOOK", server.url)
        yield server


def declaring(*declared: Webhook) -> Topology:
    plain = topology()
    return replace(plain, rules=replace(plain.rules, webhooks=declared))


def test_each_format_arrives_and_no_text_becomes_a_mention_or_a_link(receiver: Receiver) -> None:
    said: list[str] = []
    notify(declaring(*(Webhook("${env:HOOK}", form) for form in WebhookFormat)), [NOTICE], said.append)
    assert said == []
    (path, plain), (_, slack), (_, teams) = receiver.got
    assert path == "/services/T0/s3cret-word"
    jsonschema.validate(plain, schema("notice"))
    assert (plain["event"], plain["state"], plain["title"]) == ("verdict", "STOPPED", NOTICE.title)
    assert slack["text"].splitlines()[:2] == ["*prod: verdict STOPPED*", "flow a: &lt;!channel&gt; &amp; x"]
    [attachment] = teams["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    texts = [block["text"] for block in attachment["content"]["body"]]
    assert texts == ["prod: verdict STOPPED", "flow a: <!channel> & x", r"orders\[1\]\(http://evil\)\_0: \*why\*"]


def test_a_webhook_gets_the_events_that_it_takes(receiver: Receiver) -> None:
    quiet = declaring(Webhook("${env:HOOK}", events=(NoticeEvent.APPLY,)))
    notify(quiet, [NOTICE, replace(NOTICE, event=NoticeEvent.APPLY)], pytest.fail)
    assert [body["event"] for _, body in receiver.got] == ["apply"]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_refusal_is_said_and_no_redirect_is_followed(receiver: Receiver, status: int) -> None:
    receiver.status = status
    said: list[str] = []
    notify(declaring(Webhook("${env:HOOK}")), [NOTICE], said.append)
    assert len(receiver.got) == 1
    [line] = said
    assert line.startswith(f"the notice of verdict did not reach the webhook ${{env:HOOK}}: it answered {status}")
    assert "s3cret" not in line


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "the environment variable is not set"),
        ("s3cret-word", "no address"),
        ("file:///etc/s3cret-word", "no address"),
        ("https://user:s3cret-word@host.example.net/x", "no address"),
        ("https://host.example.net:s3cret-word/x", "no address"),
        ("https://s3cret-word\nHost: x/", "no address"),
        ("http://127.0.0.1:9/s3cret-word", "no answer (Connection refused)"),
        ("http://s3cret-word.invalid/x", "no answer"),
    ],
)
def test_what_is_no_address_or_does_not_answer(value: str | None, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    if value is not None:
        monkeypatch.setenv("HOOK", value)
    said = post("${env:HOOK}", b"{}")
    assert why in said
    assert "s3cret" not in said


def test_only_references_that_the_machine_lists_are_read(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_ALLOW", "env:OTHER")
    assert "RECONCILER_ALLOW lists other references" in post("${env:HOOK}", b"{}")
    assert receiver.got == []


def test_the_yaml_holds_a_reference_and_never_an_address() -> None:
    clusters = "clusters: {east: {bootstrap_servers: [e:9092]}, west: {bootstrap_servers: [w:9092]}}\n"
    read = load({"a.yaml": f"{clusters}webhooks: [{{url: '${{env:S}}', format: slack, events: [drift]}}]\n"}, "e")
    assert read.rules.webhooks == (Webhook("${env:S}", WebhookFormat.SLACK, (NoticeEvent.DRIFT,)),)
    more = "webhooks: [{url: '${env:S}'}, {url: '${file:/t}', format: teams}]\n"
    two = load({"a.yaml": clusters, "b.yaml": more}, "e")
    assert [hook.form for hook in two.rules.webhooks] == [WebhookFormat.JSON, WebhookFormat.TEAMS]


@pytest.mark.parametrize(
    "entry",
    [
        "{url: 'https://hooks.example.net/s3cret'}", "{url: 'https://${env:S}/s3cret'}", "{url: ['https://h/s3cret']}",
        "{url: {https: s3cret}}", "'https://h/s3cret'", "['https://h/s3cret']",
    ],
)  # fmt: skip
def test_an_address_in_the_yaml_is_refused_and_not_repeated(entry: str) -> None:
    with pytest.raises(TopologyError) as error:
        load({"a.yaml": f"clusters: {{east: {{bootstrap_servers: [e:9092]}}}}\nwebhooks: [{entry}]\n"}, "e")
    assert "s3cret" not in str(error.value)
