"""How one option looks, in help and written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ALIASES = "--leader-elect-"  # kube-controller-manager's spellings
_GIVEN = {click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT}


class Option(click.Option):
    """Help shows it under ``section``, without kube-controller-manager's spellings: those are listed once."""

    def __init__(self, declarations: Sequence[str], section: str, **attributes: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(declarations, show_envvar=True, **attributes)
        self.section = section
        self.of_run = False

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """As click has it, with fewer names."""
        names, self.opts = self.opts, [name for name in self.opts if not name.startswith(ALIASES)]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names

    def process_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401 - click's
        """As click has it; what was given is kept as it was written."""
        ctx.meta[f"{__name__}.{self.name}"] = value
        return super().process_value(ctx, value)

    def written(self, ctx: click.Context) -> list[str]:
        """What was given of it, on the command line or in the environment, as arguments."""
        if ctx.get_parameter_source(str(self.name)) not in _GIVEN:
            return []
        name = next(each for each in self.opts if each.startswith("--"))
        if self.is_flag:
            return [name] if ctx.params[str(self.name)] else []
        given = ctx.meta[f"{__name__}.{self.name}"]
        return [f"{name}={each.removeprefix('=')}" for each in (given if self.multiple else [given])]  # as in -v=4


def option(*declarations: str, section: str, **attributes: Any) -> Callable[..., Any]:  # noqa: ANN401 - click's own
    """A decorator as click.option, for an Option."""
    return click.option(*declarations, cls=Option, section=section, **attributes)
