"""A Python environment that holds the peer, ONNX Runtime, in pinned versions.

It lies in the user's cache folder, outside any repository, and is made again
when requirements.txt changes. Standard library only: this runs before the
environment exists.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements.txt"
INSTALL_TIMEOUT_S = 900
EXIT_UNREACHABLE = 3  # of a script, when a registry does not answer


class NotInstallable(Exception):
    """The peer cannot be installed here, for instance because the registry does not answer."""


def cache_directory():
    """weir's folder in the user's cache (XDG Base Directory Specification)."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "weir"


def environment_directory(requirements=REQUIREMENTS):
    """One folder per set of versions and Python, so that two checkouts do not disturb each other.
    """
    key = requirements.read_bytes() + sys.version.encode()
    return cache_directory() / f"peer-{hashlib.sha256(key).hexdigest()[:12]}"


def install(requirements=REQUIREMENTS):
    """Make sure that the environment is there; return its Python."""
    directory = environment_directory(requirements)
    python = directory / "bin" / "python"
    stamp = directory / "complete"
    if stamp.exists() and python.exists():
        return python
    print(f"installing the peer into {directory}", file=sys.stderr, flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    venv.create(directory, with_pip=True)
    command = [
        python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--requirement",
        requirements
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"pip install did not end within {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstallable("; ".join(errors[:2]) or "pip install failed without a message")
    stamp.touch()
    return python


def enter_or_exit(requirements=REQUIREMENTS):
    """What enter does; where the environment cannot be had, end the script with exit code 3."""
    try:
        enter(requirements)
    except NotInstallable as error:
        print(f"skipped: the peer cannot be installed: {error}", file=sys.stderr)
        sys.exit(EXIT_UNREACHABLE)


def enter(requirements=REQUIREMENTS):
    """Run the current script again inside the environment, unless it already is."""
    if pathlib.Path(sys.prefix) == environment_directory(requirements):
        return
    python = install(requirements)
    os.execv(python, [str(python), *sys.argv])
