"""Child processes that leave no descendants behind. The product starts programs only through this package.

Each program has a supervisor (`supervisor`), a small process between the owner and the program. `child` is the owner's
side, and `captured` runs a program to its end and returns its output. `background` keeps the asyncio tasks of this
process.

**Who may act.** Only the owner (the process that called `Child.start`), over a socket that no program inherits.

**What is guaranteed**, on Linux: each descendant of the program ends when the program ends, when the owner requests it,
and when the owner ends or is killed. This includes descendants that start a session, fork twice, ignore SIGTERM, empty
their environment, close their files or stop themselves. The supervisor is their *subreaper* (prctl(2)), so an orphan
becomes its child. The owner is a subreaper as well. If a program kills or stops its supervisor, the owner adopts and
ends the remaining processes.

**On failure.** A program cannot be ended if it kills both the owner *and* its supervisor, or runs as another user; such
programs need a container. Without subreapers and ``/proc`` (macOS), only the program's process group is ended, and a
child with its own session survives.
"""
