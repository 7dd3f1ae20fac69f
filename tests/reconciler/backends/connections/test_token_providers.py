"""To import a provider of tokens is to run its code: something outside of the topology has to allow it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.connections.credentials import require_trusted
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal

EAST = Cluster("east", ("localhost:9093",), client={"sasl.oauthbearer.method": "acme.tokens:provide"})


def test_a_provider_that_nothing_allows_is_not_imported() -> None:
    with pytest.raises(ClusterError, match=r"acme\.tokens:provide, which nothing allows"):
        require_trusted(EAST, Principal.PLAN)


def test_the_variable_allows_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_ALLOW", "token:acme.tokens:*")
    require_trusted(EAST, Principal.PLAN)


def test_an_installed_package_declares_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "acme-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[reconciler.token_providers]\nacme = acme.tokens:provide\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    require_trusted(EAST, Principal.PLAN)
