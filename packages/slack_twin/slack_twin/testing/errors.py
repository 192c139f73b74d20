"""How a test learns that the workspace or the app did not do what it asked for."""


class Refused(Exception):
    """The workspace cannot do that: no such person, channel, button or method. The message lists what there is."""


class NotTaken(AssertionError):
    """The app did not take what a person did: nobody acknowledged it in time, or the answer makes no sense."""


class NotInTime(AssertionError):
    """What was waited for did not happen. The message says what happened instead."""
