"""``python -m skriemdp``: reports on a ledger and checks of it; identities and cohorts."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import sys
from collections.abc import Sequence

import skriemdp
from skriemdp._errors import PublicValueError
from skriemdp.ledger._chain import Head
from skriemdp.ledger._errors import BudgetError
from skriemdp.page._facts import clean, gather
from skriemdp.page._template import to_data, to_html, to_text, words

FINE, FOUND, USAGE, UNREADABLE = 0, 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process where left out.

    Returns
    -------
    int
        0: fine; 1: something was found; 2: wrong use; 3: the ledger cannot be read.
    """
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except BudgetError as error:
        return _problem(str(error), UNREADABLE)
    except BrokenPipeError:
        return _problem("what reads the output left before its end.", USAGE)
    except OSError as error:
        return _problem(f"{error.filename!r}: {error.strerror}.", USAGE)
    except (ImportError, ValueError) as error:
        return _problem(str(error), USAGE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skriemdp",
        description="Ledgers of privacy budgets: what they hold, and whether it can be believed. "
        "Secure sums: the files of their clients.",
        epilog="Exit status: 0 fine, 1 something was found, 2 wrong use, 3 not readable.",
    )
    parser.add_argument("--version", action="version", version=skriemdp.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    ledger = argparse.ArgumentParser(add_help=False)
    ledger.add_argument("ledger", metavar="LEDGER", help=words("help")["ledger"])
    for name, run, options in (
        ("report", _report, {"dataset": "N", "author": "NAME", "model": "FILE", "html": "FILE"}),
        ("check", _check, {"head": "HEX", "witness": "FILE"}),
    ):
        command = commands.add_parser(name, parents=[ledger], help=words("help")[name])
        for option, what in options.items():
            command.add_argument(f"--{option}", metavar=what, help=words("help")[option])
        for flag in ("json", "force") if name == "report" else ():
            command.add_argument(f"--{flag}", action="store_true", help=words("help")[flag])
        command.set_defaults(run=run)
    for name, run in (("identity", _identity), ("cohort", _cohort)):
        command = commands.add_parser(name, help=words("help")[name])
        command.add_argument("file", metavar="FILE")
        command.set_defaults(run=run)
    command.add_argument("members", metavar="NAME=KEY", nargs="*", help=words("help")["members"])
    command.add_argument("--colluding", metavar="T", type=int, help=words("help")["colluding"])
    return parser


def _report(options: argparse.Namespace) -> int:
    target = options.html and os.path.realpath(options.html)
    if target and os.path.lexists(target) and not options.force:
        raise PublicValueError(f"{target!r} exists already; add --force to replace it.")
    kept = [os.path.realpath(options.ledger) + end for end in ("", "-journal", "-wal", "-shm")]
    if target in kept:
        raise PublicValueError(f"{target!r} is the ledger, which no page may replace.")
    facts = gather(options.ledger, options.dataset, options.author or "", options.model)
    if target:
        _write(target, to_html(facts))
    if options.json:
        print(json.dumps(to_data(facts), indent=1, sort_keys=True, allow_nan=False))
    elif not target:
        _say(to_text(facts))
    return _outcome(facts.findings)


def _check(options: argparse.Namespace) -> int:
    head = None if options.head is None else Head.noted(options.head)
    if options.witness is not None and not os.path.isfile(options.witness):
        raise PublicValueError(f"there is no witness file {options.witness!r}.")
    return _outcome(gather(options.ledger, head=head, witness=options.witness or "").findings)


def _identity(options: argparse.Namespace) -> int:
    from skriemdp.federated._cohort import Identity

    known = Identity.read if os.path.lexists(options.file) else Identity.make
    _say(known(options.file).public.hex() + "\n")
    return FINE


def _cohort(options: argparse.Namespace) -> int:
    from skriemdp.federated._cohort import Cohort

    if options.members:
        found = [re.fullmatch("(.*)=([0-9a-f]{64})", text) for text in options.members]
        if None in found:
            raise PublicValueError(
                "write NAME=KEY for each client, with the key that identity prints."
            )
        keys = {match[1]: bytes.fromhex(match[2]) for match in found if match}
        if len(keys) < len(found):
            raise PublicValueError("a client stands twice on the line.")
        Cohort(keys, 1 if options.colluding is None else options.colluding).write(options.file)
    elif options.colluding is not None:
        raise PublicValueError("--colluding is for a new cohort; add NAME=KEY of each client.")
    cohort = Cohort.read(options.file)
    lines = [f"{name} {key.hex()}" for name, key in sorted(cohort.members.items())]
    _say("\n".join([*lines, f"colluding {cohort.colluding}", cohort.fingerprint, ""]))
    return FINE


def _write(target: str, text: str) -> None:
    """The whole file or nothing, with the rights that a new file has."""
    draft = f"{target}.{secrets.token_hex(8)}"
    try:
        with open(draft, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(draft, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise PublicValueError(f"cannot write {target!r}: {error.strerror}.") from None


def _say(text: str) -> None:
    """Print, whatever the terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _outcome(found: list[str]) -> int:
    for text in found:
        _problem(text, FOUND)
    return FOUND if found else FINE


def _problem(text: str, status: int) -> int:
    print(f"skriemdp: {clean(text)}".encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    return status
