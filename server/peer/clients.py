"""Real clients talk to weir up, unchanged: tritonclient, the examples beside it, KServe's SDK.

    python3 server/peer/clients.py                      all of it
    python3 server/peer/clients.py --only calls         every call of tritonclient's four clients
    python3 server/peer/clients.py --only kserve        every call of the clients of KServe's SDK
    python3 server/peer/clients.py --only examples --examples FOLDER
                                                        the self-checking examples

A virtual environment with the wheels is made in the user's cache, weir is built, and asked on free
ports of this machine, with a folder of models that server/peer/models writes. The examples are
those of the repository triton-inference-server/client, folder src/python/examples: it is cloned,
unless --examples names a folder that has them. Printed is a table of what was asked and what came;
the exit code is 1 if anything went wrong, and 3 where a registry or the repository does not answer.
"""

import argparse
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "internal" / "conformance" / "peer")]

import environment  # noqa: E402
import place  # noqa: E402

FLAGS = ["--id", "triton", "--shared-memory", "/", "--response-cache", "1MiB"]
PARTS = ("descriptors", "calls", "kserve", "examples")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, help="leave the others out")
    parser.add_argument("--examples", type=pathlib.Path, metavar="FOLDER",
                        help="the folder src/python/examples of Triton's client")
    parser.add_argument("--weir", type=pathlib.Path, metavar="FILE",
                        help="the command, where it is built already")
    return parser.parse_args()


def main():
    asked = arguments()
    environment.enter_or_exit(HERE / "requirements.txt")
    import report
    parts = [asked.only] if asked.only else PARTS
    with tempfile.TemporaryDirectory(prefix="weir-peer-") as made:
        folder = pathlib.Path(made)
        weir = asked.weir or place.build(folder)
        models = place.models(folder / "models")
        table = report.Table()
        with place.Server(weir, models, *FLAGS) as server:
            if "descriptors" in parts:
                report.descriptors(table, server)
            if "calls" in parts:
                report.calls(table, server)
            if "kserve" in parts:
                report.kserve(table, server, HERE)
            if "examples" in parts:
                report.examples(table, server, weir, models, asked.examples, folder)
            table.row("server", "alive at the end", lambda: alive(server))
    sys.exit(table.end())


def alive(server):
    assert server.alive(), "it has ended"
    return f"{server.memory() >> 20} MiB in memory"


if __name__ == "__main__":
    main()
