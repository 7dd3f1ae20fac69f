"""The home of the lock is found by what clusters answer, and no step of a move lets two hold it (decision 107)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from reconciler.backends.state import home as homes
from reconciler.backends.state.home import HomeLock, Meet
from reconciler.backends.state.lock import KafkaLock
from reconciler.errors import BlockedError, ClusterError, LockHeld, ReconcilerError
from reconciler.model.environment.topology import Cluster, Principal, Topology
from reconciler.model.state import home as records
from reconciler.model.state.home import Answers, Home, Sighting, home_key, home_of
from reconciler.model.state.last_apply import applied_key
from reconciler.model.state.lock import Holder, LockRecord, dumps, loads, lock_key

ENV = "prod"
LOCK, HOME, APPLIED = lock_key(ENV), home_key(ENV), applied_key(ENV)
SILENT = ClusterError("east", "unreachable", "cluster east does not answer", "refused", "Look.")


def declared(*names: str, ids: bool = False, **aliases: str) -> Topology:
    """``aliases``: name -> the real cluster, whose name is its id and its address."""
    real = {**{name: name for name in names}, **aliases}
    clusters = {name: Cluster(name, (f"{at}:9092",), cluster_id=at if ids else None) for name, at in real.items()}
    return Topology(ENV, clusters, {}, {}, {})


def locked(cluster_id: str, renewed_ms: int = 0, home: Home | None = None, applied: bytes | None = None) -> Sighting:
    value = dumps(LockRecord(holder("somebody"), renewed_ms))
    return Sighting(cluster_id, {LOCK: value, **({APPLIED: applied} if applied else {})}, home)


def holder(name: str) -> Holder:
    return Holder(name, name, "host", 1, "", "apply", 0)


def at(real: str, moves: int = 0) -> Home:
    return Home(real, real, (f"{real}:9092",), moves)


def empty(real: str, home: Home | None = None) -> Sighting:
    return Sighting(real, {}, home)


def test_in_the_beginning_it_is_the_first_by_name() -> None:
    place = home_of(declared("hub", "east"), {"hub": empty("hub"), "east": empty("east")})
    assert (place.home, place.held, place.record) == ("east", ("east",), None)


def test_what_sorts_first_later_does_not_move_it() -> None:
    topology = declared("aaa", "hub", "west")
    answers = {"aaa": empty("aaa"), "hub": locked("hub"), "west": empty("west")}
    assert home_of(topology, answers).home == "hub", "the lock's record tells, also that of an older release"
    answers = {"aaa": empty("aaa"), "hub": empty("hub"), "west": empty("west", at("hub"))}
    assert home_of(topology, answers).home == "hub"


def test_it_is_found_under_another_name() -> None:
    place = home_of(declared(zebra="hub", aaa="west"), {"zebra": locked("hub", home=at("hub")), "aaa": empty("west")})
    assert (place.home, place.held) == ("zebra", ("zebra",))


def test_of_several_all_are_held_and_the_one_with_the_records_is_home() -> None:
    answers = {"aaa": locked("2", 9), "hub": locked("1", 5, applied=b"x"), "same": locked("1", 5, applied=b"x")}
    place = home_of(declared("aaa", "hub", "same"), answers)
    assert (place.home, place.held) == ("hub", ("aaa", "hub"))
    answers = {"aaa": locked("2", 9), "hub": locked("1", 5)}
    assert home_of(declared("aaa", "hub"), answers).home == "aaa"


def test_the_newest_word_holds() -> None:
    answers = {"east": locked("east", home=at("east", 1)), "hub": empty("hub", at("west", 2)), "west": empty("west")}
    place = home_of(declared("east", "hub", "west"), answers)
    assert (place.home, place.held) == ("west", ("east", "west"))


def test_a_silent_cluster_that_keeps_the_lock_is_reported_to_be_the_one() -> None:
    topology = declared("east", "west")
    for answer in (empty("west"), empty("west", at("east"))):
        with pytest.raises(ClusterError) as told:
            home_of(topology, {"east": SILENT, "west": answer})
        assert "refused\nCluster east keeps the lock of environment prod" in told.value.why
        assert (told.value.kind, told.value.todo) == ("unreachable", "Look.")
    denied = ClusterError("east", "denied", "no")
    with pytest.raises(ClusterError) as told:
        home_of(topology, {"east": denied, "west": empty("west")})
    assert told.value is denied


def test_where_none_is_found_a_silent_cluster_may_be_it() -> None:
    topology = declared("aaa", "east")
    with pytest.raises(ClusterError, match="does not answer") as told:
        home_of(topology, {"aaa": empty("aaa"), "east": SILENT})
    assert "Cluster east may keep the lock" in told.value.why
    assert home_of(topology, {"aaa": empty("aaa"), "east": SILENT}, anew=True).home == "aaa"
    assert home_of(topology, {"aaa": locked("aaa"), "east": SILENT}).home == "aaa"
    assert home_of(topology, {"aaa": empty("aaa", at("aaa")), "east": SILENT}).home == "aaa"
    with pytest.raises(ClusterError):
        home_of(topology, {"aaa": SILENT, "east": SILENT}, anew=True)


def test_a_home_that_is_not_declared_is_named() -> None:
    topology = declared("hub", "west")
    answers: Answers = {"hub": empty("hub"), "west": empty("west", at("east", 3))}
    with pytest.raises(BlockedError) as told:
        home_of(topology, answers)
    assert "the lock of environment prod is on east (id east, east:9092), which this topology does not" in str(
        told.value
    )
    place = home_of(topology, answers, anew=True)
    assert (place.home, place.record) == ("hub", at("east", 3))
    unknown = {**answers, "hub": SILENT}
    with pytest.raises(ClusterError, match="does not answer"):
        home_of(topology, unknown)
    with pytest.raises(BlockedError):  # an id in git tells that the silent one is another
        home_of(declared("hub", "west", ids=True), unknown)


class Killed(BaseException):
    """The process ends, and gives nothing back."""


class World:
    """Records by cluster and key. ``left``: so many writes until the process is killed."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, bytes]] = {}
        self.now = 1_000_000
        self.left = -1

    def write(self, cluster: Cluster, key: str, value: bytes | None) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1
        there = self.records.setdefault(real(cluster), {})
        if value is None:
            there.pop(key, None)
        else:
            there[key] = value

    def look(
        self, topology: Topology, _: Principal, names: Iterator[str] | None = None, progress: object = None
    ) -> Answers:
        asked = topology.clusters if names is None else names
        return {
            name: self._sighting(self.records.get(real(topology.clusters[name]), {}), topology, name) for name in asked
        }

    def _sighting(self, there: Mapping[str, bytes], topology: Topology, name: str) -> Sighting:
        home = records.loads(there[HOME]) if HOME in there else None
        return Sighting(real(topology.clusters[name]), dict(there), home)


def real(cluster: Cluster) -> str:
    return cluster.bootstrap_servers[0].partition(":")[0]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    class FakeLock:
        """As ``KafkaLock``, in memory."""

        def __init__(self, cluster: Cluster, _: str, holder: Holder, progress: object = None) -> None:
            self.cluster, self.holder = cluster, holder

        def take(self, reason: str = "") -> None:
            value = made.records.get(real(self.cluster), {}).get(LOCK)
            before = loads(value) if value else None
            if before and not reason and before.holder.id != self.holder.id and before.left_ms(made.now) > 0:
                raise LockHeld(before.holder.words(made.now))
            made.write(self.cluster, LOCK, dumps(LockRecord(self.holder, made.now)))

        def keep(self, key: str, value: bytes) -> str:
            made.write(self.cluster, key, value)
            return ""

        def release(self, moved: bool = False) -> None:
            with suppress(Killed):
                made.write(self.cluster, LOCK, None if moved else dumps(LockRecord(self.holder, made.now, 0)))

    class FakeLog:
        def __init__(self, cluster: Cluster, _: Principal) -> None:
            self.cluster = cluster

        def write(self, entries: Mapping[str, bytes]) -> None:
            for key, value in entries.items():
                made.write(self.cluster, key, value)

    monkeypatch.setattr(homes, "KafkaLock", FakeLock)
    monkeypatch.setattr(homes, "RecordLog", FakeLog)
    monkeypatch.setattr(homes, "look", made.look)
    return made


@dataclass(frozen=True)
class Taken:
    lock: KafkaLock
    home: Home
    notes: list[str]


def take_home(topology: Topology, who: str, meet: Meet, reason: str = "", to: str = "") -> Taken:
    search = HomeLock(topology, holder(who), meet)
    lock = search.take(reason, to)
    home = search._seen[lock.cluster.name].home
    assert home is not None
    return Taken(lock, home, list(search.notes.values()))


def take(topology: Topology, who: str, reason: str = "", to: str = "") -> Taken | None:
    try:
        return take_home(topology, who, lambda *_: None, reason, to)
    except ReconcilerError:
        return None


CHECKOUTS = {
    "old": declared("hub", "west"),
    "first by name is added": declared("aaa", "hub", "west"),
    "renamed": declared(zebra="hub", west="west"),
    "without the old home": declared("aaa", "west"),
    "without the new home": declared("aaa", "hub"),
}


@pytest.mark.parametrize("left", range(14))
@pytest.mark.parametrize("start", ["old", "several"])
def test_a_move_that_is_killed_after_any_write_lets_no_two_hold_the_lock(world: World, left: int, start: str) -> None:
    first = take(CHECKOUTS["old"], "before")
    assert first is not None
    first.lock.release()
    world.records["hub"][APPLIED] = b"applied"
    if start == "several":  # an older release began anew on what sorted first
        world.records["aaa"] = {LOCK: dumps(LockRecord(holder("old release"), world.now, 0))}
    world.left = left
    with suppress(Killed):
        take(CHECKOUTS["first by name is added"], "mover", to="west")
    world.left = -1
    for topology in CHECKOUTS.values():
        if taken := take(topology, "early"):
            mine = loads(world.records[real(taken.lock.cluster)][LOCK])
            assert mine.holder.id == "early"
            assert left in (0, 1) or real(taken.lock.cluster) != "hub", "the mover may hold it"
            taken.lock.release()
    kept = {name: dict(there) for name, there in world.records.items()}
    world.now += 120_000
    able = 0
    for one, other in itertools.product(CHECKOUTS.values(), repeat=2):
        world.records = {name: dict(there) for name, there in kept.items()}
        if take(one, "one") is None:
            continue
        able += 1
        assert take(other, "other") is None, "two hold the lock"
    assert able


def test_a_move_takes_the_records_along_and_leaves_no_lock_behind(world: World) -> None:
    topology = CHECKOUTS["first by name is added"]
    first = take(CHECKOUTS["old"], "before")
    assert first is not None
    assert first.home == at("hub")
    first.lock.release()
    world.records["hub"][APPLIED] = b"applied"
    moved = take(topology, "mover", to="west")
    assert moved is not None
    moved.lock.release()
    assert moved.home == at("west", 1)
    assert LOCK not in world.records["hub"]
    assert world.records["west"][APPLIED] == b"applied"
    assert {records.loads(there[HOME]) for there in world.records.values()} == {at("west", 1)}
    world.left = 2  # the lock, taken and given back: nothing else is written once all know
    again = take(topology, "again")
    assert again is not None
    again.lock.release()
    world.left = -1
    assert take(CHECKOUTS["without the new home"], "lost") is None
    stolen = take(CHECKOUTS["without the new home"], "lost", reason="west burned down")
    assert stolen is not None
    assert (stolen.home.cluster, stolen.home.moves) == ("aaa", 2)


def test_only_a_vouched_cluster_is_reported(world: World) -> None:
    def meet(cluster: Cluster, _: bytes | None) -> None:
        if cluster.name == "west":
            raise BlockedError("a stranger")
        if cluster.name == "zzz":
            raise ClusterError("zzz", "denied", "no Write on topic __reconciler")

    taken = take_home(declared("hub", "west", "zzz"), "one", meet)
    assert "west" not in world.records
    assert taken.notes == ["zzz has no record that the lock is kept on hub: no Write on topic __reconciler"]
    taken.lock.release()
    with pytest.raises(BlockedError):
        take_home(declared("west"), "one", meet)


def test_two_that_begin_at_once_with_other_clusters_do_not_both_begin(world: World) -> None:
    """Each looks before the other has written: what it sees after its own write decides."""
    others = declared("aaa", "hub", "west")
    seen: list[Taken | None] = []
    inner = world.look

    def look(
        topology: Topology, principal: Principal, names: Iterator[str] | None = None, progress: object = None
    ) -> Answers:
        answers = inner(topology, principal, names)
        if not seen:
            seen.append(None)
            seen[0] = take(others, "other")
        return answers

    homes.look = look  # type: ignore[assignment]  # the fixture puts it back
    assert take(declared("hub", "west"), "one") is None or seen[0] is None


def test_records_under_another_prefix_are_named_and_left() -> None:
    clusters = {"east": replace(Cluster("east", ("east:9092",)), topic_prefix="b.")}
    answers = {"east": Sighting("east", {}, elsewhere="a.__reconciler")}
    with pytest.raises(BlockedError) as refused:
        home_of(Topology(ENV, clusters, {}, {}, {}), answers)
    assert "a.__reconciler, and git names b.__reconciler" in refused.value.what
    assert refused.value.todo == "Set clusters.east.internal_topics.prefix to 'a.'."
