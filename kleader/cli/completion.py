"""``kleader completion``: scripts that complete a command line, and the names that they cannot know.

Static scripts, made from the declarations of the options. click's own would start Python at every Tab, a tenth of a
second each, and take a word after ``--`` for one of ours. So the program is started for names alone: contexts, clusters
and users are read from the kubeconfig, namespaces and Leases are asked for at the cluster.
"""

from __future__ import annotations

import os
import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from kleader.cli import options, types
from kleader.cli.command import Command
from kleader.cli.say import FAILED, fail

if TYPE_CHECKING:
    from kleader.locks.api import Api

SHELLS = ("bash", "zsh", "fish")
IN_KUBECONFIG = ("contexts", "clusters", "users")
IN_CLUSTER = ("namespaces", "leases")
_NAMES_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_PAGE = "500"
_MOST = 50_000  # nobody chooses among more

EPILOG = """
\b
Examples:
  source <(kleader completion bash)       in ~/.bashrc
  source <(kleader completion zsh)        in ~/.zshrc, after compinit
  kleader completion fish | source        in ~/.config/fish/config.fish
"""


@click.command(cls=Command, options_metavar="[OPTIONS]", epilog=EPILOG)
@click.argument("what", type=click.Choice([*SHELLS, *IN_KUBECONFIG, *IN_CLUSTER]), metavar="bash|zsh|fish")
@options.add((options.NAMESPACE,), options.LOOKING)
def completion(what: str, **given: Any) -> None:  # noqa: ANN401 - click's
    """Print the script that completes kleader's command line in a shell.

    The script asks back for what it cannot know: contexts, clusters, users, namespaces and leases are printed instead,
    one a line, with the options that say where from.
    """
    if what in SHELLS:
        from kleader.cli import shells

        click.echo(shells.script(what, click.get_current_context().find_root().command), nl=False)
    elif what in IN_KUBECONFIG:
        from kleader.locks import plain

        path = given["kubeconfig"] or os.environ.get("KUBECONFIG") or "~/.kube/config"
        _print(plain.names(path, what))
    else:
        from kleader.cli import reach

        _print(reach.run(_ask(what, given)))


def _print(names: list[str]) -> None:
    """What is no single word in any shell cannot be completed."""
    click.echo("".join(f"{name}\n" for name in names if name.isprintable()), nl=False)


async def _ask(what: str, given: dict[str, Any]) -> list[str]:
    from kleader.cli import reach
    from kleader.locks.api import Api
    from kleader.locks.base import LockError, SetUpError

    credentials = reach.credentials_of(options.access(given))
    api = Api(credentials)
    try:
        await credentials.refresh()
        namespace = types.namespace_name("--namespace", given["namespace"] or "") or credentials.namespace
        target = "/api/v1/namespaces" if what == "namespaces" else _leases(namespace)
        return await _names(api, target, given["request_timeout"])
    except (LockError, SetUpError) as error:
        fail(str(error), FAILED)
    finally:
        api.close()


def _leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{urllib.parse.quote(namespace, safe='')}/leases"


async def _names(api: Api, target: str, timeout: float) -> list[str]:
    """Of all objects of a collection, page by page."""
    from kleader.locks.pages import pages

    names: list[str] = []
    async with aclosing(pages(api, target, {"limit": _PAGE}, timeout, accept=_NAMES_ALONE)) as listed:
        async for items, _ in listed:
            for each in items:
                about = each.get("metadata") if isinstance(each, dict) else None
                if isinstance(about, dict) and isinstance(about.get("name"), str):
                    names.append(about["name"])
            if len(names) > _MOST:
                break
    return names
