"""init: answers and options give the same files; what is missing is named; no secret is ever written down."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from reconciler.engine.plan.build import plan
from reconciler.environment.adopt.first_environment import FirstEnvironment, first_environment
from reconciler.environment.adopt.topics import AdoptOptions
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError
from reconciler.model.changes import CreateTopic, StartMirror
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.operations.adopt.init import require_new
from reconciler.operations.adopt.init_options import InitOptions, InitRequest, command_line, init_request
from reconciler.operations.adopt.questions import completed
from tests.support.fakes.cluster import FakeCluster

TWO = ("--cluster", "east=e:9092", "--cluster", "west=w:9092")


def options_of(words: Sequence[str]) -> InitOptions:
    """As the command line reads them."""
    given: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        given.setdefault(option, []).append(value)
    return InitOptions(
        Path("env"),
        tuple(given.get("--cluster", ())),
        "".join(given.get("--security-protocol", ())),
        tuple(given.get("--client", ())),
        tuple(given.get("--flow", ())),
        "".join(given.get("--naming", ())),
        tuple(given.get("--exclude", ())),
    )


def request(*words: str) -> InitRequest:
    return init_request(options_of(words))


def answered(answers: Sequence[str], *words: str) -> tuple[InitOptions, list[str]]:
    """Empty answers take the default, as they do at a terminal."""
    waiting, said = list(answers), list[str]()
    complete = completed(
        options_of(words), lambda _, default: waiting.pop(0) or default, said.append, {"PW"}.__contains__
    )
    assert waiting == []
    return complete, said


def written(wanted: InitRequest, **worlds: FakeCluster) -> FirstEnvironment:
    return first_environment(
        "env", wanted.clusters, wanted.flows, AdoptOptions(wanted.exclude), lambda cluster: worlds[cluster.name].read()
    )


def planned(files: Mapping[str, str], **worlds: FakeCluster) -> list[object]:
    topology = load(files, "env")
    never = {name: LiveMirror(name, JobState.ABSENT) for name in topology.mirrors}
    made = plan(topology, LiveState({name: world.read() for name, world in worlds.items()}, never))
    assert not made.refused
    return [each.change for each in made.changes]


def test_what_is_written_is_valid_and_its_plan_is_the_copies_and_the_mirror() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.put("orders", 3, retention_ms="3600000")
    east.put("other")
    west.put("own", 2)
    wanted = request(*TWO, "--security-protocol", "PLAINTEXT", "--flow", "east:west=orders.*", "--exclude", "other")
    first = written(wanted, east=east, west=west)
    assert sorted(first.files) == [
        "east/cluster.yaml", "east/topics.yaml", "flows.yaml", "west/cluster.yaml", "west/topics.yaml",
    ]  # fmt: skip
    changes = planned(first.files, east=east, west=west)
    topics = {(each.cluster, each.ref.name) for each in changes if isinstance(each, CreateTopic)}
    assert ("west", "east.orders") in topics
    assert {name for _, name in topics if not name.startswith("__")} == {"east.orders"}
    assert [each.mirror for each in changes if isinstance(each, StartMirror)] == ["west"]


def test_with_names_that_stay_the_source_declares_the_topic_whatever_the_order() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    for world in (east, west):
        world.put("orders", 3)
    words = ("--cluster", "west=w:9092", "--cluster", "east=e:9092", "--security-protocol", "PLAINTEXT")
    first = written(request(*words, "--flow", "east:west=orders", "--naming", "identity"), east=east, west=west)
    assert load(first.files, "env").topics["orders"].clusters == ("east",)
    assert "west/topics.yaml" not in first.files


def test_answers_give_what_options_give() -> None:
    answers = ["east", "e:9092", "west", "no address", "w:9092", "", "sasl_ssl", "/etc/ca.pem", "scram",
               "SCRAM-SHA-256", "plan", "hunter2", "PW", "plan", "/run/secrets/west",
               "east", "", "(", "orders.*", "", "Identity"]  # fmt: skip
    complete, said = answered(answers)
    assert complete.client == (
        "ssl.ca.location=/etc/ca.pem",
        "sasl.mechanism=SCRAM-SHA-256",
        "east:sasl.username=plan",
        "east:sasl.password=${env:PW}",
        "west:sasl.username=plan",
        "west:sasl.password=${file:/run/secrets/west}",
    )
    assert sum("\n" in words for words in said) == 4, "each answer that cannot be meant is asked for again"
    assert "SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER" in said
    assert max(len(words) for words in said if "\n" not in words) <= 80
    assert "hunter2" not in "".join(said) + command_line(complete)
    again = options_of(shlex.split(command_line(complete))[3:])
    assert (again, init_request(again)) == (complete, init_request(complete))
    flow = init_request(complete).flows[0]
    assert (flow.source, flow.target, flow.topics, flow.identity) == ("east", "west", ("orders.*",), True)


def test_only_what_is_open_is_asked() -> None:
    whole = (*TWO, "--security-protocol", "PLAINTEXT", "--flow", "none")
    assert answered([], *whole)[0] == options_of(whole)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), ["--cluster", "--security-protocol", "--flow"]),
        (("--cluster", "east=e:1", "--security-protocol", "SASL_SSL", "--flow", "none"), ["--client sasl.mechanism"]),
        (
            (*TWO, "--security-protocol", "SASL_SSL", "--client", "sasl.mechanism=PLAIN", "--flow", "none",
             "--client", "sasl.username=u", "--client", "east:sasl.password=${env:X}"),
            ["'west:sasl.password=${env:WEST_PASSWORD}'"],
        ),
        ((*TWO, "--security-protocol", "TLS"), ["--security-protocol is TLS", "SASL_SSL"]),
        ((*TWO, "--client", "noth:acks=1"), ["for cluster noth"]),
        (("--cluster", "east"), ["--cluster east= is empty"]),
        ((*TWO, "--security-protocol", "SSL", "--flow", "east-west"), ["--flow is east-west", "SOURCE:TARGET=REGEX"]),
    ],
)  # fmt: skip
def test_what_is_missing_or_wrong_is_named(words: Sequence[str], named: Sequence[str]) -> None:
    with pytest.raises(ReconcilerError) as error:
        request(*words)
    assert all(text in str(error.value) for text in named), str(error.value)
    assert error.value.todo


def test_a_literal_secret_is_refused_and_not_repeated() -> None:
    with pytest.raises(ReconcilerError) as error:
        request(*TWO, "--security-protocol", "SASL_SSL", "--client", "east:sasl.password=hunter2")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("flows", "problem"),
    [
        (("east:west=.*", "west:east=.*"), "mirror loop"),
        (("east:nort=.*",), "nort"),
    ],
)
def test_answers_that_contradict_each_other_are_refused_before_anybody_connects(
    flows: Sequence[str], problem: str
) -> None:
    given = [word for flow in flows for word in ("--flow", flow)]
    wanted = request(*TWO, "--security-protocol", "PLAINTEXT", "--naming", "identity", *given)
    with pytest.raises(ReconcilerError, match=problem):
        written(wanted)


def test_one_cluster_under_two_names_is_refused() -> None:
    wanted = request(*TWO, "--security-protocol", "PLAINTEXT", "--flow", "none")
    with pytest.raises(ReconcilerError, match="one cluster"):
        written(wanted, east=FakeCluster("east", cluster_id="same"), west=FakeCluster("west", cluster_id="same"))


def test_what_is_there_is_never_changed(tmp_path: Path) -> None:
    require_new(tmp_path)
    require_new(tmp_path / "new")
    (tmp_path / "a.yaml").write_text("")
    with pytest.raises(ReconcilerError, match="is there already"):
        require_new(tmp_path)
