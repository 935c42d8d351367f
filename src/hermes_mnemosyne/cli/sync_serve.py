"""The command that lets other machines sync with this store: sync-serve."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_mnemosyne._errors import InvalidInput, MissingExtra
from hermes_mnemosyne.cli.common import Commands, Exit, add_command, number_between, opened, theme_of
from hermes_mnemosyne.cli.output import Output, complain, visible

if TYPE_CHECKING:
    from hermes_mnemosyne.sync.server.access import Access
    from hermes_mnemosyne.sync.server.serving import Address

DEFAULT_PORT = 8765
_NEEDED = ("starlette", "uvicorn")
_STORES = ("mnemosyne_db", "mnemosyne_dsn", "mnemosyne_dsn_file")
_LOGGERS = ("hermes_mnemosyne", "uvicorn.error")


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands,
        "sync-serve",
        _serve,
        help="serve this store to other machines, which run 'mnemosyne sync --remote URL'",
        example="mnemosyne sync-serve --api-key-file ~/.config/mnemosyne/api-key\n"
        "mnemosyne sync-serve --host 0.0.0.0 --keys-file /etc/mnemosyne/keys.json --tls-cert cert.pem --tls-key key.pem",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1); another one needs a key"
    )
    parser.add_argument(
        "--port", type=number_between(0, 65535), default=DEFAULT_PORT, help=f"the port (default {DEFAULT_PORT}; 0: a free one)"
    )
    parser.add_argument(
        "--api-key-file",
        metavar="FILE",
        help="the file with one key that may do everything (else MNEMOSYNE_SYNC_KEY, MNEMOSYNE_SYNC_KEY_FILE, "
        "$CREDENTIALS_DIRECTORY/api-key)",
    )
    parser.add_argument("--keys-file", metavar="FILE", help="the file of named keys that 'mnemosyne keys' maintains")
    parser.add_argument("--tls-cert", metavar="FILE", help="serve over TLS with this certificate (PEM, with its chain)")
    parser.add_argument("--tls-key", metavar="FILE", help="its key (default: in the file of the certificate)")
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name by which clients call this server, such as that of a proxy; repeat the option for more, '*' for any",
    )
    parser.add_argument(
        "--behind-tls-proxy",
        action="store_true",
        help="take keys in clear from other hosts: a proxy on one of them ends the TLS of the clients",
    )
    parser.add_argument("--open-metrics", action="store_true", help="let /metrics be read without a key")


def _serve(args: argparse.Namespace, out: Output) -> int:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in _NEEDED):
        complain(str(MissingExtra("server")))
        return Exit.USAGE
    if theme_of(args) is not None:
        raise InvalidInput("the server serves every theme: leave --theme out, and limit keys with 'mnemosyne keys add --theme'")
    from hermes_mnemosyne.sync.server.app import Options, make_app
    from hermes_mnemosyne.sync.server.serving import check_certificate, listen, serve

    address, access = _address(args), _access(args)
    if access.is_open and not address.is_loopback:
        raise InvalidInput(
            f"--host {args.host} can be reached by other machines: give a key with --api-key-file or --keys-file, "
            "or listen on 127.0.0.1"
        )
    check_certificate(address)
    _take_credentials(args)
    options = Options(host=args.host, allowed_hosts=tuple(args.allowed_host), open_metrics=args.open_metrics)
    with opened(args, out, create=True) as memory:
        memory.engine.one_shot = False
        # A store that cannot be opened is told now, not to each client.
        replica = memory.engine.store.replica
        listener = listen(address)
        url = address.shown(listener.getsockname()[1])
        if out.json_mode:
            out.json({"url": url, "store": memory.place, "replica": replica, "access": access.kind})
        else:
            out.line(visible(f"serving {memory.place} at {url} ({access.kind})"))
        out.flush()
        with _logging():
            serve(make_app(memory, access, options), listener, address, options.limits, os.environ)
    return Exit.DONE


def _address(args: argparse.Namespace) -> Address:
    from hermes_mnemosyne.sync.server.serving import Address

    if not args.host.strip():
        raise InvalidInput("--host is empty: name an address, or leave the option out")
    if args.tls_key is not None and args.tls_cert is None:
        raise InvalidInput("--tls-key needs --tls-cert")
    cert, key = (None if name is None else Path(name).expanduser() for name in (args.tls_cert, args.tls_key))
    return Address(host=args.host.strip().strip("[]"), port=args.port, tls_cert=cert, tls_key=key)


def _access(args: argparse.Namespace) -> Access:
    from hermes_mnemosyne.sync.keyring import Keyring
    from hermes_mnemosyne.sync.secret import api_key
    from hermes_mnemosyne.sync.server.access import Access

    key = api_key(flag=args.api_key_file, environ=os.environ)
    keyring = None
    if args.keys_file is not None:
        keyring = Keyring(Path(args.keys_file).expanduser())
        keyring.keys()  # a file that cannot be used is told now
    return Access(key, keyring, clear_is_safe=args.behind_tls_proxy)


def _take_credentials(args: argparse.Namespace) -> None:
    """Take the name of a Postgres from systemd's credentials where no store was named."""
    from hermes_mnemosyne.sync.secret import credentials_directory

    directory = credentials_directory(os.environ)
    if directory is None or any(getattr(args, name, None) is not None for name in _STORES):
        return
    if (directory / "dsn").exists():
        args.mnemosyne_dsn_file = str(directory / "dsn")


@contextmanager
def _logging() -> Iterator[None]:
    """Let the server's log go to stderr, one line per request; the journal has the time of a line itself."""
    handler: logging.StreamHandler[Any] = logging.StreamHandler(sys.stderr)
    time = "" if os.environ.get("JOURNAL_STREAM") else "%(asctime)s "
    handler.setFormatter(logging.Formatter(f"{time}%(levelname)s %(message)s"))
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
    loggers[0].setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
