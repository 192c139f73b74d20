"""Child processes of which no descendant is left behind: the only place from which the product starts programs.

Each program has a supervisor (`supervisor`), a small process between the owner and the program; `child` is the owner's
side of it, and `captured` runs one to its end and keeps its output.

**Who may act.** Only the owner (the process that called `Child.start`), over a socket that no program inherits.

**What is guaranteed**, on Linux: when the program ends, when it is told to, and when the owner ends or is killed, each
descendant of the program ends: those that start a session, fork twice, ignore SIGTERM, empty their environment, close
their files or stop themselves too. The supervisor is their *subreaper* (prctl(2)): an orphan becomes its child. The
owner is one as well: where a program kills or stops its supervisor, the owner adopts and ends what is left.

**On failure.** Out of reach is a program that kills the owner *and* its supervisor, or that is another user's; against
these a container is needed. Without subreapers and ``/proc`` (macOS) only the program's process group is ended: a child
that has started a session stays.
"""
