"""The CLI commands init and completion: arguments, options, exit codes."""

import os
import shlex
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli.help import ending
from reconciler.errors import ReconcilerError
from reconciler.render.console import PROGRAM, App, say, show

app = App()


class CompletionShell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class YesOrNo(StrEnum):
    YES = "yes"
    NO = "no"


class CopyNaming(StrEnum):
    DEFAULT = "default"
    IDENTITY = "identity"


@app.command(
    epilog=ending(
        "0 written, and valid; 1 error",
        "init environments/prod",
        "init environments/lab --cluster east=e:9092 --cluster west=w:9092 --security-protocol PLAINTEXT"
        " --flow 'east:west=orders.*'",
        "init --repository kafka-topology --actions example/kafka-topology-reconciler@v1.0.0",
    )
)
def init(
    env: Annotated[
        Path | None,
        typer.Argument(metavar="ENV", help="new environment folder; with --repository: DIR/environments/prod"),
    ] = None,
    clusters: Annotated[
        list[str] | None, typer.Option("--cluster", metavar="NAME=HOST:PORT", help="alias, and brokers to ask first")
    ] = None,
    protocol: Annotated[
        str, typer.Option("--security-protocol", metavar="NAME", help="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    ] = "",
    client: Annotated[
        list[str] | None,
        typer.Option("--client", metavar="[CLUSTER:]KEY=VALUE", help="librdkafka setting; secrets as ${env:X}"),
    ] = None,
    flows: Annotated[
        list[str] | None, typer.Option("--flow", metavar="SOURCE:TARGET=REGEX", help="topics to copy; none for none")
    ] = None,
    naming: Annotated[CopyNaming | None, typer.Option("--naming", help="identity: copies keep their names")] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="REGEX", help="whole names of topics not to declare")
    ] = None,
    principals: Annotated[
        list[str] | None,
        typer.Option("--principal", metavar="[CLUSTER:]WHO:KEY=VALUE", help="login of apply or mirror alone"),
    ] = None,
    sync_offsets: Annotated[
        YesOrNo | None, typer.Option("--sync-offsets", help="keep offsets of groups on targets")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", metavar="PORT", min=0, max=65535, help="of mirrors; 0: none")
    ] = None,
    users: Annotated[bool, typer.Option("--with-users", help="also declare SCRAM users")] = False,
    repository: Annotated[
        Path | None,
        typer.Option("--repository", metavar="DIR", help="also write what a repository of environments needs: CI"),
    ] = None,
    actions: Annotated[
        str,
        typer.Option(
            "--actions", metavar="OWNER/NAME@REF", help="repository with this tool's actions, if not its publisher's"
        ),
    ] = "",
) -> None:
    """Ask a few questions and write a first environment from live clusters. Options answer questions."""
    from reconciler.backends.files import is_taken
    from reconciler.operations.adopt import init as initial
    from reconciler.operations.adopt.init import (
        InitOptions,
        actions_of,
        command_line,
        environment_in,
        init_request,
        write_repository,
    )
    from reconciler.operations.adopt.questions import completed

    asks = sys.stdin is not None and sys.stdin.isatty()
    # The repository's files are written with the environment: a cluster that does not answer leaves nothing behind.
    beside: Iterable[str] = ()
    if repository is not None:
        folder = environment_in(repository, env)
        beside = write_repository(repository, folder, actions_of(actions))
        # Without an answer, and no terminal to ask on, the environment is left for the next command.
        if env is None and not clusters and (is_taken(folder) or not asks):
            command = "plan" if is_taken(folder) else "init"
            show("\n".join([*beside, f"next:\n  reconciler {command} {shlex.quote(str(folder))}"]))
            return
    elif env is None:
        raise ReconcilerError("init has no folder to write", "", "reconciler init environments/prod")
    else:
        folder = env
    initial.require_new(folder)
    options = InitOptions(
        folder,
        tuple(clusters or ()),
        protocol,
        tuple(client or ()),
        tuple(flows or ()),
        naming.value if naming else "",
        tuple(exclude or ()),
        tuple(principals or ()),
        sync_offsets.value if sync_offsets else "",
        metrics_port,
        users,
    )
    if asks:
        asked = completed(options, _ask, say, os.environ.__contains__)
        if asked != options:
            say("the same without questions:", f"  {command_line(asked)}")
        options = asked
    show(initial.run(init_request(options), say, beside))


def _ask(question: str, default: str) -> str:
    return str(typer.prompt(question, default=default, show_default=bool(default), err=True))


@app.command(epilog=ending("0 done; 1 error, such as an unknown shell", "completion bash", "completion zsh"))
def completion(shell: Annotated[CompletionShell, typer.Argument(metavar="SHELL", help="bash, zsh or fish")]) -> None:
    """Print the script that completes commands, options, environments, and names of their YAML."""
    from typer._completion_shared import get_completion_script

    show(
        get_completion_script(prog_name=PROGRAM, complete_var=f"_{PROGRAM.upper()}_COMPLETE", shell=shell.value),
        "shell",
    )
