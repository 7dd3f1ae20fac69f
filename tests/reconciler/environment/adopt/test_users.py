"""Adopted SCRAM users: each has a password reference of its own, also where names differ in little."""

from __future__ import annotations

from reconciler.environment.adopt.users import adopt_users
from reconciler.model.live import LiveUsers
from reconciler.model.users import Mechanism


def test_names_that_differ_in_punctuation_or_case_get_variables_of_their_own() -> None:
    names = ["svc.a", "svc-a", "svc_a", "SVC-A", "svc_a_2", "other", "é", "ü"]
    live = LiveUsers({name: {Mechanism.SHA_512: 4096} for name in names}, {})
    passwords = {user.name: user.password for user in adopt_users("east", live).users}
    assert set(passwords) == set(names)
    assert len(set(passwords.values())) == len(names)
    assert passwords["other"] == "${env:TODO_PASSWORD_OF_OTHER}"
    assert passwords == {user.name: user.password for user in adopt_users("east", live).users}
