"""``python -m dpone_provider.sandbox start|stop|status|sql``: the command without the rest of ``dpone``."""

from __future__ import annotations

import argparse
import sys

from dpone_provider.errors import DponeError
from dpone_provider.sandbox.command import add_commands, run


def main() -> int:
    """Exit codes: 0 done, 1 not, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m dpone_provider.sandbox", description=__doc__)
    add_commands(parser)
    try:
        return run(parser.parse_args())
    except DponeError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
