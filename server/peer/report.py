"""What was asked, and what came of it, as a table."""

import asyncio
import subprocess
import sys
import traceback

import calls as checks
import descriptors as wire
import examples as scripts
import environment
from environment import EXIT_UNREACHABLE
from faces import Face

FACES = ("http", "http.aio", "grpc", "grpc.aio")
WIDTH = 62
SDK_TIMEOUT_S = 120


class Table:

    def __init__(self):
        self.passed = self.failed = 0
        self.skipped = []

    def line(self, of, what, outcome, words):
        print(f"{outcome:<7}{of:<12}{what:<46} {words[:WIDTH]}", flush=True)

    def row(self, of, what, check):
        """One check: what it returns is what came, and what it raises is a failure."""
        try:
            words = check()
        except Exception as error:  # whatever a client raises
            self.failed += 1
            words = " ".join(str(error).split()) or type(error).__name__
            self.line(of, what, "FAILED", words)
            if not isinstance(error, AssertionError):
                traceback.print_exc(limit=-1, file=sys.stderr)
            return
        self.passed += 1
        self.line(of, what, "ok", words)

    def end(self):
        print(f"{self.passed} ok, {self.failed} failed, {len(self.skipped)} left out")
        for why in self.skipped:
            print(f"left out: {why}")
        if self.failed:
            return 1
        return EXIT_UNREACHABLE if self.skipped else 0


def descriptors(table, server):

    def check():
        differences, methods, messages = wire.compare(server.grpc)
        assert not differences, "; ".join(differences)
        return f"{methods} methods, {messages} messages, as tritonclient's"

    table.row("wire", "messages", check)


def calls(table, server):
    asyncio.run(all_calls(table, server))


async def all_calls(table, server):
    for name in FACES:
        face = Face(name, server)
        await every_method(table, face)
        for words, (check, only) in checks.CASES.items():
            if name in only:
                await one(table, face, words, check)
        await face.close()


async def every_method(table, face):
    """All methods that the client has: one that is not known here is a failure."""
    done = {}
    for method in face.methods():
        check = checks.METHODS.get(method, unknown)
        if check in done:
            table.row(face.name, method, lambda: done[check]())
            continue
        done[check] = await outcome(check, face)
        table.row(face.name, method, done[check])


async def unknown(_):
    raise AssertionError("there is no check of this method")


async def outcome(check, face):
    """What a check comes to, to be said later."""
    try:
        words = await check(face)
    except Exception as error:
        failure = error

        def fail():
            raise failure

        return fail
    return lambda: words


async def one(table, face, words, check):
    table.row(face.name, words, await outcome(check, face))


def kserve(table, server, here):
    """What sdk.py says, in an environment of its own."""
    try:
        python = environment.install(here / "requirements-kserve.txt")
    except environment.NotInstallable as error:
        table.skipped.append(f"KServe's SDK cannot be installed: {error}")
        return
    command = [python, here / "sdk.py", server.http, server.grpc]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SDK_TIMEOUT_S)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    for client, call, outcome, words in lines:

        def check():
            assert outcome == "ok", words
            return words

        table.row(f"kserve {client}", call, check)

    def ended():
        assert done.returncode == 0 and lines, done.stderr[-200:]
        return f"{len(lines)} rows"

    table.row("kserve", "all of it", ended)


def examples(table, server, weir, models, folder, scratch):
    try:
        folder = folder or scripts.clone(scratch)
    except scripts.Unreachable as error:
        table.skipped.append(str(error))
        return
    scripts.run_all(table, server, weir, models, folder, scratch)
