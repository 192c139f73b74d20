"""Exceptions for tests whose workspace or app did not behave as requested."""


class Refused(Exception):
    """The workspace refused a request: the person, channel, button or method does not exist.

    The message lists valid names.
    """


class NotTaken(AssertionError):
    """The app did not accept a person's action: no acknowledgement arrived in time, or the response is invalid."""


class NotInTime(AssertionError):
    """The expected change did not happen in time. The message lists the app's calls and deliveries instead."""
