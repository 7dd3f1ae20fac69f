"""Secret references are resolved late, whole, and never shown."""

from __future__ import annotations

import pytest

from reconciler.replication.secret_references import MissingReference, resolve


def _no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def test_settings_without_references_stay_as_they_are() -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.username": "a$b{c}"}
    assert resolve(settings, {}, _no_file) == settings


def test_environment_variables_and_files() -> None:
    found = resolve(
        {"sasl.password": "${env:PASSWORD}", "ssl.key.password": "${file:/run/secrets/key}"},
        {"PASSWORD": "s3cret"},
        {"/run/secrets/key": "from file\r\n"}.__getitem__,
    )
    assert found == {"sasl.password": "s3cret", "ssl.key.password": "from file"}


def test_only_the_last_line_break_of_a_file_goes() -> None:
    assert resolve({"k": "${file:a}"}, {}, lambda _: " a\nb \n") == {"k": " a\nb "}


def test_several_references_in_one_value() -> None:
    assert resolve({"k": "${env:A}-${env:B}"}, {"A": "1", "B": "2"}, _no_file) == {"k": "1-2"}


def test_a_resolved_value_is_not_resolved_again() -> None:
    assert resolve({"k": "${env:A}"}, {"A": "${env:B}", "B": "no"}, _no_file) == {"k": "${env:B}"}


def test_an_empty_variable_is_a_value_and_a_missing_one_is_not() -> None:
    assert resolve({"k": "${env:A}"}, {"A": ""}, _no_file) == {"k": ""}
    with pytest.raises(MissingReference, match=r"env:A.*not set") as caught:
        resolve({"k": "${env:A}", "other": "${env:SECRET}"}, {"SECRET": "s3cret"}, _no_file)
    assert caught.value.reference == "env:A"
    assert "s3cret" not in str(caught.value)


def test_an_unreadable_file_says_why() -> None:
    with pytest.raises(MissingReference, match="No such file") as caught:
        resolve({"k": "${file:/nowhere}"}, {}, _no_file)
    assert caught.value.reference == "file:/nowhere"
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "path",
    ["/etc/shadow", "/run/secrets/../../etc/shadow", "/run/secrets/current/../shadow", "//run/secrets/key", "key"],
)
def test_only_files_of_an_allowed_folder_are_read(path: str) -> None:
    """``current`` may be a link to a folder elsewhere, whose parent is another one than the text says."""
    allow = {"RECONCILER_ALLOW": "file:/run/secrets"}
    with pytest.raises(MissingReference, match="lists other references"):
        resolve({"k": f"${{file:{path}}}"}, allow, lambda _: "read")
    assert resolve({"k": "${file:/run/secrets/current/key}"}, allow, lambda _: "read") == {"k": "read"}
