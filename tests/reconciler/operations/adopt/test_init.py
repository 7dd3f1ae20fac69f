"""init: answers and options give the same files; what is missing is named; no secret is ever written down."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.engine.plan.build import plan
from reconciler.environment.adopt.entries import AdoptOptions
from reconciler.environment.adopt.first_environment import FirstEnvironment, first_environment
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError
from reconciler.model.changes import CreateTopic, StartMirror
from reconciler.model.environment.topology import Principal
from reconciler.model.live import JobState, LiveMirror, LiveState, LiveUsers
from reconciler.model.principals import Mechanism
from reconciler.operations.adopt.arguments import expressions_of
from reconciler.operations.adopt.init import (
    InitOptions,
    InitRequest,
    command_line,
    init_request,
    require_new,
    variables_of,
)
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
        tuple(given.get("--principal", ())),
        "".join(given.get("--sync-offsets", ())),
        int(given["--metrics-port"][0]) if "--metrics-port" in given else None,
    )


def request(*words: str) -> InitRequest:
    return init_request(options_of(words))


def answered(answers: Sequence[str], *words: str) -> tuple[InitOptions, list[str]]:
    """Empty answers take the default, as they do at a terminal."""
    waiting, said = list(answers), list[str]()

    def say(*lines: str) -> None:
        said.append("\n".join(lines))

    complete = completed(options_of(words), lambda _, default: waiting.pop(0) or default, say, {"PW"}.__contains__)
    assert waiting == []
    return complete, said


def written(wanted: InitRequest, **worlds: FakeCluster) -> FirstEnvironment:
    return first_environment(
        "env",
        wanted.clusters,
        wanted.flows,
        AdoptOptions(wanted.exclude),
        lambda cluster: worlds[cluster.name].read(),
        wanted.metrics_port,
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


@pytest.fixture
def authority(tmp_path: Path) -> str:
    file = tmp_path / "ca.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    return str(file)


def test_answers_give_what_options_give(authority: str) -> None:
    answers = ["east", "e:9092", "west", "no address", "w:9092", "", "sasl_ssl", "SCRAM-SHA-512", authority, "system",
               "scram", "SCRAM-SHA-256", "plan", "hunter2", "PW", "plan", "/run/secrets/west",
               "east", "", "(", "orders.*", "", "Identity",
               "apply", "", "", "", "mirror", "swordfish", "PW", "", "many", "9500"]  # fmt: skip
    complete, said = answered(answers)
    assert complete.client == (
        f"east:ssl.ca.location={authority}",
        "sasl.mechanism=SCRAM-SHA-256",
        "east:sasl.username=plan",
        "east:sasl.password=${env:PW}",
        "west:sasl.username=plan",
        "west:sasl.password=${file:/run/secrets/west}",
    )
    assert complete.principals == (
        "east:apply:sasl.username=apply",
        "east:apply:sasl.password=${env:EAST_APPLY_PASSWORD}",
        "west:mirror:sasl.username=mirror",
        "west:mirror:sasl.password=${env:PW}",
    )
    assert (complete.sync_offsets, complete.metrics_port) == ("yes", 9500)
    assert sum("\n" in words for words in said) == 7, "each answer that cannot be meant is asked for again"
    assert "SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI" in said
    assert max(len(words) for words in said if "\n" not in words) <= 80
    assert not {"hunter2", "swordfish"} & set(("".join(said) + command_line(complete)).split())
    again = options_of(shlex.split(command_line(complete))[3:])
    assert (again, init_request(again)) == (complete, init_request(complete))
    flow = init_request(complete).flows[0]
    assert (flow.source, flow.target, flow.topics, flow.identity) == ("east", "west", ("orders.*",), True)


@pytest.mark.parametrize("option", ["ssl.ca.location", "east:ssl.ca.location"])
def test_an_authority_is_checked_before_anybody_connects(option: str, tmp_path: Path) -> None:
    whole = (*TWO, "--security-protocol", "SSL", "--flow", "none", "--client")
    with pytest.raises(ReconcilerError, match="cannot be read: No such file"):
        request(*whole, f"{option}={tmp_path / 'none.pem'}")
    with pytest.raises(ReconcilerError, match="cannot be read: Could not determine home directory"):
        request(*whole, f"{option}=~no-such-user/ca.pem")
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ReconcilerError, match="no certificate in PEM"):
        request(*whole, f"{option}={store}")
    assert request(*whole, f"{option}=${{env:CA}}").clusters[0].client["ssl.ca.location"] == "${env:CA}"


def test_principals_offsets_and_metrics_are_written_and_read_again() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.put("orders")
    wanted = request(
        *TWO, "--security-protocol", "SASL_PLAINTEXT", "--flow", "east:west=orders.*", "--metrics-port", "9400",
        "--sync-offsets", "yes", "--client", "sasl.mechanism=PLAIN", "--client", "sasl.username=plan",
        "--client", "sasl.password=${env:PW}", "--principal", "apply:sasl.username=apply",
        "--principal", "apply:sasl.password=${env:ALL}",
        "--principal", "west:apply:sasl.password=${env:WEST}",
    )  # fmt: skip
    topology = load(written(wanted, east=east, west=west).files, "env")
    assert topology.clusters["east"].principals == {
        Principal.APPLY: {"sasl.username": "apply", "sasl.password": "${env:ALL}"}
    }
    assert topology.clusters["west"].principals == {
        Principal.APPLY: {"sasl.username": "apply", "sasl.password": "${env:WEST}"}
    }
    assert topology.flows["east-to-west"].groups.sync_offsets
    assert topology.mirrors["west"].metrics_port == 9400


@pytest.mark.parametrize("word", ["apply", "nobody:sasl.username=x", "noth:apply:sasl.username=x"])
def test_a_principal_that_cannot_be_meant_is_refused(word: str) -> None:
    with pytest.raises(ReconcilerError, match="the --principal number 1 is no setting of a principal"):
        request(*TWO, "--security-protocol", "PLAINTEXT", "--flow", "none", "--principal", word)


def test_users_are_left_out_and_counted_unless_asked_for() -> None:
    east = FakeCluster("east")
    world = replace(east.read(), users=LiveUsers({"admin": {Mechanism.SHA_512: 4096}}, {}))
    words = ("--cluster", "east=e:9092", "--security-protocol", "PLAINTEXT", "--flow", "none")
    for asked in (False, True):
        first = first_environment("env", request(*words).clusters, (), AdoptOptions(), lambda _: world, users=asked)
        assert ("east/users.yaml" in first.files) == asked
        assert first.users_left == ({} if asked else {"east": 1})


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
    (tmp_path / "file").touch()
    with pytest.raises(ReconcilerError, match="cannot be created") as caught:
        require_new(tmp_path / "file" / "new")
    assert caught.value.why == f"{tmp_path / 'file'} is no folder."
    with pytest.raises(ReconcilerError, match="already exists"):
        require_new(tmp_path)


def test_flags_at_the_beginning_of_the_only_expression_of_an_option_are_taken() -> None:
    assert expressions_of(["(?i)Orders.*"], "--exclude").match("ORDERS.x")
    with pytest.raises(ReconcilerError, match=r"Write flags for a part: \(\?i:Orders\.\*\)"):
        expressions_of(["(?i)Orders.*", "b"], "--exclude")


def test_no_two_clusters_share_a_variable_nor_a_cluster_and_a_principal() -> None:
    assert dict(variables_of(("east-1", "east_1", "east.1"))) == {
        "east-1": "EAST_1",
        "east_1": "EAST_1_2",
        "east.1": "EAST_1_3",
    }
    assert dict(variables_of(("east", "east-apply", "2nd"))) == {
        "east": "EAST",
        "east-apply": "EAST_APPLY_2",
        "2nd": "_2ND",
    }
