"""The text of doctor: what several findings of one check ask for is one script."""

from __future__ import annotations

from reconciler.model.reports.doctor import Checkup, DoctorVerdict, Finding
from reconciler.render.reports.checkups import checkup_text


def lack(word: str, who: str = "apply") -> Finding:
    todo = f"kafka-acls.sh --add --allow-principal 'User:{who}' --operation {word} --cluster"
    what = f"lacks {word} on the cluster"
    return Finding("cluster east", f"permissions of {who}", DoctorVerdict.PROBLEM, what, "needed", (todo,))


def test_the_grants_of_a_principal_are_one_script_below_what_is_missing() -> None:
    text = checkup_text(Checkup("prod", (lack("Alter"), lack("Describe"), lack("Read", "mirror"))))
    assert text.splitlines()[3:] == [
        "Problem (3)",
        "  cluster east, permissions of apply: lacks Alter on the cluster",
        "    why: needed",
        "  cluster east, permissions of apply: lacks Describe on the cluster",
        "    why: needed",
        "    do, all 2:",
        "      kafka-acls.sh --add --allow-principal 'User:apply' --operation Alter --cluster",
        "      kafka-acls.sh --add --allow-principal 'User:apply' --operation Describe --cluster",
        "  cluster east, permissions of mirror: lacks Read on the cluster",
        "    why: needed",
        "    do: kafka-acls.sh --add --allow-principal 'User:mirror' --operation Read --cluster",
    ]
