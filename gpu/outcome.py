"""How a check ends that does not come to a result."""


class Skip(Exception):
    """The check cannot be made here; the text says why."""


class Failed(Exception):
    """A check did not hold, or a program of it did not do its work."""
