"""``init``: writes a first environment from live clusters, and says what its plan would do."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from reconciler.backends.files import environment_name, write_folder
from reconciler.engine.plan.summary import verdict
from reconciler.environment.adopt.first_environment import FirstEnvironment, first_environment
from reconciler.environment.adopt.topics import AdoptOptions, counts
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveCluster
from reconciler.model.plan import Plan
from reconciler.operations.adopt.init_options import InitRequest
from reconciler.operations.adopt.run import read_live
from reconciler.operations.review.reviews import make_plan
from reconciler.operations.session.session import open_session
from reconciler.text import counted, first_of

Read = Callable[[Cluster], LiveCluster]


def require_new(folder: Path) -> None:
    """Raises ReconcilerError where something is there already."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        why = "Files that exist are never changed."
        todo = "Choose another folder; reconciler adopt adds a cluster to an environment."
        raise ReconcilerError(f"{folder} is there already", why, todo)


def run(request: InitRequest, say: Callable[[str], None]) -> str:
    """Reads all clusters, writes all files, then plans; the words to end with. Raises ReconcilerError: of what goes
    wrong before the files are written, nothing is left."""
    require_new(request.folder)
    name = environment_name(request.folder)

    def read(cluster: Cluster) -> LiveCluster:
        say(f"reading cluster {cluster.name}")
        return read_live(cluster, name)

    first = first_environment(
        name,
        request.clusters,
        request.flows,
        AdoptOptions(request.exclude),
        read,
        request.metrics_port,
        users=request.users,
    )
    write_folder(request.folder, {request.folder / path: text for path, text in first.files.items()})
    say(f"wrote {counted(len(first.files), 'file')} in {request.folder}; planning")
    return "\n".join(report(request, first, _planned(request.folder)))


def _planned(folder: Path) -> Plan:
    try:
        with open_session(folder, Principal.PLAN) as session:
            return make_plan(session)
    except ReconcilerError as error:
        problem, todo = f"the files are written in {folder}, but cannot be planned: {error.what}", error.todo
        raise ReconcilerError(problem, error.why, todo) from None


def report(request: InitRequest, first: FirstEnvironment, planned: Plan) -> Iterator[str]:
    """What was written, what was left out, what an apply would be refused for, and where to go from here."""
    yield f"Wrote {counted(len(first.files), 'file')} in {request.folder}; validate takes them"
    for adoption in first.adoptions:
        held = [counted(len(adoption.topics), "topic"), counted(adoption.access.count, "access rule")]
        held += [counted(len(adoption.quotas.quotas), "quota"), counted(len(adoption.users.users), "SCRAM user")]
        yield f"  {adoption.cluster.name} (id {adoption.cluster.cluster_id}): {', '.join(held)}"
        for rule, names in counts(adoption.left_out).items():
            yield f"    left out, {rule} ({len(names)}): {first_of(names, 4)}"
        partly = [topic.topic.name for topic in adoption.topics if topic.comments]
        if partly:
            yield f"    declared only in part ({len(partly)}), see the files: {first_of(partly, 4)}"
        kinds = ("access rule", adoption.access), ("quota", adoption.quotas), ("user", adoption.users)
        for kind, part in kinds:
            yield from (f"    {kind} left out: {name}" for name in part.left_out)
        yield from (f"    note: {note}" for note in adoption.notes)
    for flow in request.flows:
        yield f"  flow {flow.name}: {', '.join(flow.topics)}"
    yield f"plan: {verdict(planned)}"
    for refusal in planned.refused:
        yield f"  blocked: {refusal.reason.text}  [{refusal.reason.code}]"
        yield f"    {refusal.todo}"
    folder = shlex.quote(str(request.folder))
    yield from _left_to_decide(request, first)
    yield "next:"
    yield f"  reconciler doctor {folder}"
    yield f"  reconciler plan {folder}"


def _left_to_decide(request: InitRequest, first: FirstEnvironment) -> Iterator[str]:
    """What was not asked for, and where it is written."""
    open_questions = []
    for name, users in first.users_left.items():
        if users:
            words = (
                f"{counted(users, 'SCRAM user')} of {name} are not declared: init --with-users, docs/change/users.md"
            )
            open_questions.append(words)
    borrowed = [cluster.name for cluster in request.clusters if Principal.APPLY not in cluster.principals]
    if borrowed and any(cluster.client for cluster in request.clusters):
        logins = f"apply and the mirror log in as plan on {', '.join(borrowed)}"
        open_questions.append(f"{logins}: principals of the cluster, docs/begin/connecting.md")
    if off := [flow.name for flow in request.flows if not flow.sync_offsets]:
        words = f"offsets of groups are not kept on the target by {', '.join(off)}"
        open_questions.append(f"{words}: groups: {{sync_offsets: true}}, docs/consumers/offsets.md")
    if request.flows and not request.metrics_port:
        open_questions.append("the mirror serves no metrics: metrics_port, docs/mirror/metrics.md")
    yield from ["left to decide:"] if open_questions else []
    yield from (f"  {words}" for words in open_questions)
