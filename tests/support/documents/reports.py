"""Reports that have a page of their own, with names that mean harm."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model.reports.doctor import Checkup, DoctorVerdict, Finding
from reconciler.model.reports.failover import (
    FailoverCheck,
    FailoverFacts,
    FailoverStep,
    GroupMove,
    GroupOffset,
    GroupState,
    Level,
    Report,
    StepResult,
    TranslatedPartition,
    Way,
)
from reconciler.model.reports.verify import Verification, VerificationRequest
from reconciler.operations.failover.decide import move_of
from reconciler.replication.runs.verification import (
    ComparedPartition,
    Equality,
    FieldDigest,
    FirstDifference,
    ShownRecord,
)
from tests.support.builders import flow, topology
from tests.support.documents.pages import NASTY

CHECKUP = Checkup(
    NASTY,
    (
        Finding(
            "cluster east", "certificate", DoctorVerdict.PROBLEM, f"expired {NASTY}", "it is refused", ("renew it",)
        ),
        Finding("cluster west", "clock", DoctorVerdict.UNKNOWN, "no answer", todo=("ask again",)),
        Finding("flow f", "sizes", DoctorVerdict.WARNING, "west takes smaller messages"),
        Finding("cluster hub", "address", DoctorVerdict.OK, "answers", "nobody reads this", ("nor this",)),
    ),
)
EQUAL = ComparedPartition("f", "orders", "east.orders", 0, Equality.EQUAL, "records", equal=12_345, lag=7)
RECORD = ShownRecord(FieldDigest(4, "aa" * 16), FieldDigest(None, ""), FieldDigest(1, "bb" * 16), 1_700_000_000_000)
DIFFERENT = replace(
    EQUAL,
    partition=1,
    state=Equality.DIFFERENT,
    difference=FirstDifference(41, ("missing",), 50, 61, RECORD, RECORD, 3),
)
UNKNOWN = replace(EQUAL, partition=2, state=Equality.UNKNOWN, compared="nothing", reason=NASTY, todo="Wait.")
VERIFICATION = Verification(NASTY, VerificationRequest(), (EQUAL, DIFFERENT, UNKNOWN), ("local-1",), 3.0)
MOVE = move_of(topology(flow("east", "west", "orders")), Way.FAILOVER, "east-to-west")
MOVED = GroupMove(
    NASTY,
    GroupState("consumer", "Empty", 0),
    GroupState(),
    (GroupOffset(("orders", 0), ("east.orders", 0), 50, "", TranslatedPartition(48, exact=False, end=60), None),),
    "left alone",
)
REPORT = Report(
    "e",
    FailoverFacts(MOVE, True, "", None, (MOVED,)),
    (
        FailoverCheck("origin", Level.STOPS, f"it is lost {NASTY}", "pass --unplanned"),
        FailoverCheck("lag", Level.WARNS, "7 records are not copied"),
        FailoverCheck("groups", Level.FINE, "all can be moved"),
    ),
    (FailoverStep("offsets", StepResult.PLANNED, "of 1 group"),),
    dry=True,
)
