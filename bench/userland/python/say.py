"""How the programs of rung 2 print: a line a value, so that two runs can be compared."""


def show(what, value):
    print(f"{what} = {value}", flush=True)


def memory(what, value):
    """A size that the cap changes."""
    print(f"memory {what} {value}", flush=True)


def must(result):
    """What a call of cuda.bindings gives beside the error, which ends the program."""
    error, *values = result
    if int(error):
        raise SystemExit(f"{type(error).__name__}: {error.name}")
    return values[0] if len(values) == 1 else tuple(values) if values else None


def attempt(what, call, *arguments, **options):
    """Print what a call gives, or the kind of error."""
    try:
        show(what, call(*arguments, **options))
    except Exception as error:  # pylint: disable=broad-except
        show(what, type(error).__name__)
