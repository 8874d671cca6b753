"""Put a screen where it belongs: rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys

from dpone_provider.cli.emit import printable
from dpone_provider.cli.screen import Screen


def show(screen: Screen, *, to_stderr: bool = False) -> None:
    """Show a screen on stdout, or on stderr."""
    stream = sys.stderr if to_stderr else sys.stdout
    if stream.isatty():
        from rich.console import Console

        from dpone_provider.cli.render import render

        Console(stderr=to_stderr).print(render(screen))
        return
    from dpone_provider.cli.plain import lines

    stream.writelines(printable(line) + "\n" for line in lines(screen))
