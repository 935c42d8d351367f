"""`python -m benchmarks.sync` measures sync over loopback, SQLite on both sides, beside mnemosyne-memory's own sync in the same run."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.corpus import Corpus
from benchmarks.harness import (
    PEER,
    PEER_VERSION,
    ROOT,
    Driver,
    Verdict,
    at_most,
    clean_environment,
    concluded,
    load,
    peer_environment,
    peer_python,
    quantiles,
)

SEED = 7
_RUNS = 3
_CLIENTS, _ROUNDS = 50, 4
_PATIENCE = 60.0


class Machine:
    """One machine of ours: a home with a store, and its commands as processes."""

    def __init__(self, home: Path, key: Path) -> None:
        """Make the home; the store is made by its first writer."""
        home.mkdir(parents=True)
        self.home = home
        self.store = home / "store" / "mnemosyne.db"
        self.key = key
        self.environment = clean_environment(home)

    def fill(self, texts: Sequence[str]) -> None:
        """Store texts."""
        self.store.parent.mkdir(exist_ok=True)
        driver = Driver(sys.executable, ROOT / "benchmarks" / "engine_driver.py", self.environment)
        driver.call("open", path=str(self.store))
        for start in range(0, len(texts), 5_000):
            driver.call("remember", texts=texts[start : start + 5_000])
        driver.stop()

    def command(self, *arguments: str) -> list[str]:
        """Return one of our commands on this machine's store."""
        return [sys.executable, "-m", "hermes_mnemosyne", "--db", str(self.store), *arguments, "--api-key-file", str(self.key)]

    def sync(self, url: str) -> tuple[float, dict[str, Any], float]:
        """Do one round as a process; return its wall seconds, what it printed, and its greatest size in MiB."""
        began = time.perf_counter()
        process = subprocess.Popen(
            self.command("sync", "--remote", url, "--json"), env=self.environment, stdout=subprocess.PIPE, text=True
        )
        output = process.stdout.read() if process.stdout else ""
        # Not by the process object: the size of this one child is wanted, not the greatest of all.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        if process.returncode:
            raise RuntimeError(f"sync ended with {process.returncode}: {output}")
        return seconds, json.loads(output.splitlines()[-1]), usage.ru_maxrss / 1024


@contextlib.contextmanager
def served(machine: Machine) -> Iterator[tuple[str, Callable[[], float]]]:
    """Serve a machine's store; yield the URL and what gives the server's greatest size in MiB."""
    port = _free_port()
    log = (machine.home / "serve.log").open("w", encoding="utf-8")
    process = subprocess.Popen(
        machine.command("sync-serve", "--port", str(port)), env=machine.environment, stdout=log, stderr=log
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(port, process)
        yield url, lambda: _peak(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=_PATIENCE)
        log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(port: int, process: subprocess.Popen[Any]) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError("the server did not start")


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@contextlib.contextmanager
def _place() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory(prefix="mnemosyne-sync-") as name:
        key = Path(name, "key")
        key.touch(mode=0o600)
        key.write_text(secrets.token_hex(32), encoding="ascii")
        yield Path(name), key


def _check(held: bool, done: dict[str, Any]) -> None:  # noqa: FBT001 - a condition
    if not held:
        raise RuntimeError(f"a round did something else: {done}")


def initial(rows: int, runs: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Push and pull a whole store, `runs` times; the median counts."""
    texts = Corpus(0, SEED).short(rows)
    pushes, pulls, sizes = [], [], []
    for _ in range(runs):
        with _place() as (base, key):
            one, hub, other = (Machine(base / name, key) for name in ("one", "hub", "other"))
            one.fill(texts)
            with served(hub) as (url, peak):
                seconds, done, _ = one.sync(url)
                pushes.append(seconds)
                _check(done["pushed"] >= rows, done)
                seconds, done, client = other.sync(url)
                pulls.append(seconds)
                _check(done["pulled"] >= rows, done)
                sizes.append({"client": round(client, 1), "server": round(peak(), 1)})
    push, pull = statistics.median(pushes), statistics.median(pulls)
    name = f"{rows:,} entries"
    figures = {"push": pushes, "pull": pulls, "greatest_mib": sizes}
    if rows > 10_000:  # noqa: PLR2004 - the size of the gate
        return figures, [
            at_most(f"initial push, {name}", push, 30, "s", "goal"),
            at_most(f"initial pull, {name}", pull, 30, "s", "goal"),
            Verdict(f"greatest size of the client, {name}, MiB", max(size["client"] for size in sizes), "", "info", None),
            Verdict(f"greatest size of the server, {name}, MiB", max(size["server"] for size in sizes), "", "info", None),
        ]
    return figures, [
        at_most(f"initial push, {name}", push, 3, "s"),
        at_most(f"initial pull, {name}", pull, 4, "s"),
        at_most(f"initial push, {name}", push, 2, "s", "goal"),
        at_most(f"initial pull, {name}", pull, 3, "s", "goal"),
    ]


def rounds(rows: int, runs: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Do rounds with ten changes, and with none, among many rows, each a whole process."""
    corpus = Corpus(0, SEED)
    texts = corpus.short(rows)
    found: dict[str, list[float]] = {"push 10": [], "pull 10": [], "empty": []}
    with _place() as (base, key):
        one, hub, other = (Machine(base / name, key) for name in ("one", "hub", "other"))
        one.fill(texts)
        with served(hub) as (url, _):
            one.sync(url)
            other.sync(url)
            one.sync(url)
            for number in range(runs):
                one.fill([f"change {number} {place} {secrets.token_hex(8)}" for place in range(10)])
                for name, machine, count in (("push 10", one, "pushed"), ("pull 10", other, "pulled"), ("empty", one, "")):
                    seconds, done, _ = machine.sync(url)
                    found[name].append(seconds)
                    _check(not count or done[count] == 10, done)  # noqa: PLR2004
    median = {name: statistics.median(values) for name, values in found.items()}
    return found, [
        at_most(f"round that pushes 10 changes among {rows:,} rows", median["push 10"], 0.4, "s"),
        at_most(f"round that pulls 10 changes among {rows:,} rows", median["pull 10"], 0.4, "s"),
        at_most(f"empty round, {rows:,} rows", median["empty"], 0.3, "s"),
    ]


def crowd() -> tuple[dict[str, Any], list[Verdict]]:
    """Fifty clients in one process that sync at once with one server."""
    from hermes_mnemosyne import Memory
    from hermes_mnemosyne.sync.remote import Remote
    from hermes_mnemosyne.sync.round import Options, sync_once
    from hermes_mnemosyne.values import ALL_THEMES

    with _place() as (base, key):
        hub = Machine(base / "hub", key)
        hub.fill(Corpus(0, SEED).short(1_000))
        os.environ["MNEMOSYNE_EMBEDDER"] = "none"
        stores = [base / f"client{number}" / "mnemosyne.db" for number in range(_CLIENTS)]
        memories = [Memory.open(path, theme="hermes", readable_themes=ALL_THEMES) for path in stores]
        barrier = threading.Barrier(_CLIENTS)
        secret = key.read_text(encoding="ascii")

        def sync(memory: Memory, url: str) -> tuple[float, list[str]]:
            barrier.wait()
            began = time.perf_counter()
            done = sync_once(memory, Remote(url, secret), Options(name="hub"))
            return time.perf_counter() - began, done.errors

        with served(hub) as (url, _), ThreadPoolExecutor(_CLIENTS) as pool:
            first = list(pool.map(lambda memory: sync(memory, url), memories))
            later = [done for _ in range(_ROUNDS) for done in pool.map(lambda memory: sync(memory, url), memories)]
        for memory in memories:
            memory.close()
    errors = [error for _, found in (*first, *later) for error in found]
    empty = quantiles([seconds for seconds, _ in later])
    return {"clients": _CLIENTS, "first": quantiles([seconds for seconds, _ in first]), "empty": empty, "errors": errors[:10]}, [
        at_most(f"{_CLIENTS} clients at once: errors", float(len(errors)), 0, ""),
        at_most(f"{_CLIENTS} clients at once: p95 of an empty round", empty["p95"] / 1000, 0.5, "s"),
    ]


def peer(rows: int) -> tuple[dict[str, Any], list[Verdict]]:
    """Do what `initial` does with mnemosyne-memory: its relay, its clients, encryption on as it demands."""
    python = peer_python()
    # Its sync works with encryption only, for which it needs a package that it does not name as needed.
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "cryptography>=44"], check=True)
    command = python.parent / "mnemosyne"
    texts = Corpus(0, SEED).short(rows)
    with tempfile.TemporaryDirectory(prefix="mnemosyne-peer-") as name:
        base = Path(name)
        environment = peer_environment(base / "home", keep_all=True)
        secret = base / "seal"
        run = lambda *arguments: _run([str(command), *arguments], environment)  # noqa: E731
        secret.touch(mode=0o600)
        secret.write_text(_generated(run("sync-generate-key")[1]), encoding="ascii")
        stores = {place: base / f"{place}.db" for place in ("one", "hub", "other")}
        for store in stores.values():
            run("sync-init", "--db-path", str(store))
        _fill_peer(python, environment, stores["one"], texts)
        port = _free_port()
        process = subprocess.Popen(
            [str(command), "sync-serve", "--port", str(port), "--db-path", str(stores["hub"])],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait(port, process)
            remote = ("sync", "--remote", f"http://127.0.0.1:{port}", "--encrypt-key-file", str(secret), "--db-path")
            push, said = run(*remote, str(stores["one"]))
            pull, heard = run(*remote, str(stores["other"]))
            empty, _ = run(*remote, str(stores["one"]))
        finally:
            process.terminate()
            process.wait(timeout=_PATIENCE)
    for words in (said, heard):
        _check(f"{rows}" in words.replace(",", ""), {"said": words[-400:]})
    figures = {"push": push, "pull": pull, "empty": empty, "said": said[-400:], "heard": heard[-400:]}
    return figures, [
        Verdict(f"{PEER}: initial push, {rows:,} rows, s", push, "", "info", None),
        Verdict(f"{PEER}: initial pull, {rows:,} rows, s", pull, "", "info", None),
        Verdict(f"{PEER}: empty round, {rows:,} rows, s", empty, "", "info", None),
    ]


def _generated(said: str) -> str:
    found = re.search(r"[A-Za-z0-9_-]{43}=", said)
    if found is None:
        raise RuntimeError(f"the peer made no key: {said[-200:]}")
    return found[0]


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1_800, check=False)
    return time.perf_counter() - began, done.stdout + done.stderr


def _fill_peer(python: Path, environment: dict[str, str], store: Path, texts: Sequence[str]) -> None:
    """Store texts on the shared surface, the only rows that it syncs."""
    script = (
        "import json, sys\n"
        "from mnemosyne.core.beam import BeamMemory\n"
        "beam = BeamMemory(session_id='hermes_shared_surface', db_path=sys.argv[1])\n"
        "beam.remember_batch([{'content': text, 'scope': 'global'} for text in json.load(sys.stdin)])\n"
    )
    subprocess.run(
        [str(python), "-c", script, str(store)],
        env=environment,
        input=json.dumps(list(texts)),
        text=True,
        check=True,
        timeout=1_800,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sync", description=__doc__)
    parser.add_argument("--scale", choices=("quick", "full"), default="full", help="quick is a smoke run of a minute")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="measure these figures only")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "sync.json", help="the JSON result")
    options = parser.parse_args(arguments)
    full = options.scale == "full"
    small, large = (10_000, 100_000) if full else (500, 2_000)
    found: dict[str, Callable[[], tuple[dict[str, Any], list[Verdict]]]] = {
        "initial": lambda: initial(small, _RUNS if full else 1),
        "large": lambda: initial(large, 1),
        "rounds": lambda: rounds(large, 5 if full else 1),
        "crowd": crowd,
        "peer": lambda: peer(small),
    }
    unknown = sorted(set(options.only) - set(found))
    if unknown:
        parser.error(f"no such figure: {', '.join(unknown)}; there are {', '.join(found)}")
    before, figures, verdicts = load(), {}, []
    for name in options.only or found:
        sys.stderr.write(f"   {time.strftime('%H:%M:%S')} {name}\n")
        figures[name], judged = found[name]()
        verdicts += judged
    facts = {"scale": options.scale, "seed": SEED, "peer": f"{PEER} {PEER_VERSION}, encryption on, no embeddings"}
    return concluded(options.out, facts, figures, verdicts, before)


if __name__ == "__main__":
    sys.exit(main())
