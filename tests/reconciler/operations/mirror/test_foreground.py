"""What a command that waits for its job refuses before the job starts."""

from __future__ import annotations

import pytest

from reconciler.errors import ReconcilerError
from reconciler.operations.mirror.foreground import require_master


@pytest.mark.parametrize("master", ["local[2]", "spark://a:7077,b:7077", "k8s://https://h:6443", "yarn"])
def test_another_master_may_compare(master: str) -> None:
    require_master(master)


@pytest.mark.parametrize(
    "master", ["spark://u:c4nary@h:7077", "k8s://https://u:c4nary@h:6443", "u:c4nary@h", "local[none", "spark://h"]
)
def test_a_master_is_an_address_without_a_login(master: str) -> None:
    with pytest.raises(ReconcilerError, match="--master: ") as refused:
        require_master(master)
    assert "c4nary" not in str(refused.value)
