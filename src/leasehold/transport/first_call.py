"""The first step of a command, before its imports: open ssh to the box that it names, as in the last command.

ssh takes 0.2 s and more to shake hands, and our own start a good part of that: so they overlap. The command line is
read from a file of the home, written after a successful connection, and the link is used by the code that would have
run the same command line. An unused link is ended: nothing was sent over it but ssh's own handshake. Only modules
that Python has loaded anyway are imported here.
"""

from __future__ import annotations

import os

_VERBS = ("run", "check", "fetch")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@:")
_OTHERS_MAY_WRITE = 0o022
_MOST_BYTES = 1 << 20


class Call:
    """An ssh that is connecting to a box: its command line, its pid, and our ends of its three streams."""

    __slots__ = ("argv", "pid", "stderr", "stdin", "stdout")

    def __init__(self, argv: tuple[str, ...], pid: int, ends: tuple[int, int, int]) -> None:
        """Hold the started process."""
        self.argv = argv
        self.pid = pid
        self.stdin, self.stdout, self.stderr = ends


_under_way: list[Call] = []  # one at most


def calls_folder(home: str) -> str:
    """Return the folder of remembered command lines, one file per box."""
    return os.path.join(home, "cache", "calls")


def for_command(words: list[str]) -> None:
    """Connect to the box that a command line names, or whose run it names, if this home has reached it before."""
    if "-h" in words or "--help" in words:
        return
    named = []
    if words[:1] == ["pull"]:
        named = [of_run(word) for word in words[1:] if not word.startswith("-")]
    elif words and words[0] in _VERBS:
        named = [after for word, after in zip(words, words[1:], strict=False) if word == "--on"]
        named += [word[len("--on=") :] for word in words if word.startswith("--on=")]
    if len(named) == 1:
        from leasehold.kit.startup.home_folder import home_folder

        try:
            home = home_folder(os.environ)
        except OSError:  # the current folder was removed
            return
        call(calls_folder(home), named[0])


def of_run(word: str) -> str:
    """Return the key for a run, or for a job whose newest run is meant; no box can have this name."""
    return "@" + word


def call(folder: str, name: str) -> None:
    """Start the command remembered for this name; on anything odd, no early connection is made."""
    if _under_way or not hasattr(os, "posix_spawnp"):  # Windows, where no link is opened at all
        return
    argv = _remembered(folder, name)
    try:
        _under_way.extend([_spawn(argv)] if argv else ())
    except (OSError, ValueError, NotImplementedError):  # no ssh, or a C library without sessions: reported on use
        return


def take(argv: list[str]) -> Call | None:
    """Return the pending connection, if it has this command line."""
    if _under_way and _under_way[0].argv == tuple(argv):
        return _under_way.pop()
    return None


def hang_up() -> None:
    """End a connection that was not used."""
    import _signal  # type: ignore[import-not-found] # part of Python; signal itself takes longer

    while _under_way:
        unused = _under_way.pop()
        for end in (unused.stdin, unused.stdout, unused.stderr):
            os.close(end)
        try:
            if not os.waitpid(unused.pid, os.WNOHANG)[0]:  # else it has ended, and the pid may be another's
                os.kill(unused.pid, _signal.SIGKILL)  # a process that ignores another signal would keep us waiting
                os.waitpid(unused.pid, 0)
        except (ChildProcessError, ProcessLookupError):  # our parent had us ignore SIGCHLD
            continue


def remember(folder: str, name: str, argv: list[str]) -> None:
    """Store how a box was reached; a home that cannot write forgets."""
    if not _is_plain(name) or _remembered(folder, name) == tuple(argv):
        return
    path = os.path.join(folder, name)
    new = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(b"\0".join(os.fsencode(word) for word in (_with_what(), *argv)))
        os.replace(new, path)
    except OSError:
        return


def forget(folder: str, name: str = "") -> None:
    """Stop early connections to it: it did not answer. Without a name, to all: one of them has moved or is gone."""
    try:
        for one in os.listdir(folder) if not name else [name] if _is_plain(name) else []:
            os.unlink(os.path.join(folder, one))
    except OSError:
        return


def _is_plain(name: str) -> bool:
    return bool(name) and name[0] != "." and len(name) < 200 and _PLAIN.issuperset(name)


def _with_what() -> str:
    """Return what else decides how ssh connects."""
    return os.environ.get("LEASEHOLD_SSH", "")


def _remembered(folder: str, name: str) -> tuple[str, ...]:
    if not _is_plain(name):
        return ()
    try:
        with open(os.path.join(folder, name), "rb") as file:
            seen = os.fstat(file.fileno())
            if seen.st_uid != os.geteuid() or seen.st_mode & _OTHERS_MAY_WRITE or seen.st_size > _MOST_BYTES:
                return ()
            ssh, *argv = map(os.fsdecode, file.read().split(b"\0"))
    except OSError:
        return ()
    return tuple(argv) if ssh == _with_what() else ()


def _spawn(argv: tuple[str, ...]) -> Call:
    import _signal

    pipes = [os.pipe() for _ in range(3)]  # none of the ends is inherited unchanged
    theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
    ours = (pipes[0][1], pipes[1][0], pipes[2][0])
    actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
    usual = [_signal.SIGPIPE, _signal.SIGXFSZ]  # which Python ignores
    try:
        if min(theirs) < len(theirs):
            raise OSError("one of our own three streams is closed, and its number was given to a pipe")
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setsid=True, setsigdef=usual)
    except BaseException:
        for end in ours:
            os.close(end)
        raise
    finally:
        for end in theirs:
            os.close(end)
    return Call(argv, pid, ours)
