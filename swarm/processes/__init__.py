"""Child processes that leave no descendant behind: the only place from which the product starts programs.

Each program has a supervisor (`supervisor`), a small process between the owner and the program; `child` is the owner's
side of it, and `captured` runs a program to its end and keeps its output.

**Who may act.** Only the owner (the process that called `Child.start`), over a socket that no program inherits.

**What is guaranteed**, on Linux: each descendant of the program ends when the program ends, on request, and when the
owner ends or is killed, even a descendant that starts a session, forks twice, ignores SIGTERM, empties its environment,
closes its files or stops itself. The supervisor is their *subreaper* (prctl(2)): an orphan becomes its child. The owner
is a subreaper as well: if a program kills or stops its supervisor, the owner adopts and ends the remaining processes.

**On failure.** A program is out of reach if it kills the owner *and* its supervisor, or runs as another user; such
programs need a container. Without subreapers and ``/proc`` (macOS) only the program's process group is ended: a child
with a session of its own stays.
"""
