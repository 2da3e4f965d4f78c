"""Our side of the transfer bench as one command, so that its start, imports and handshake count as a peer's do.

python -m bench.ours pull ROOT RUN INTO    python -m bench.ours push ROOT PROJECT MEMORY
"""

from __future__ import annotations

import os
import sys

from leasehold.transport import first_call

if __name__ == "__main__":  # as `lease` does
    first_call.call(os.path.join(os.path.dirname(sys.argv[2]), "calls"), "box")
import gc
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

gc.set_threshold(50_000)  # as `lease` does
from leasehold.transport.openssh import SshAddress, SshTransport  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
    from leasehold.transport.contract import Transport

# Each verb brings what it needs itself: a peer's command does not start with another's parts either.


def connect(root: str, way: Transport | None = None) -> CaretakerEngine:
    """Open one wire to the bench's box."""
    from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
    from leasehold.transport.wire import Wire

    return CaretakerEngine(Wire(way or transport(root), root))


def _remember(root: str) -> Callable[[list[str]], None]:
    return partial(first_call.remember, str(Path(root).parent / "calls"), "box")


def transport(root: str) -> SshTransport:
    """The way to the bench's box."""
    return SshTransport(SshAddress.parse("box"), Path(root).parent / "pins")


def pull_all(root: str, run: str, into: str) -> dict[str, int]:
    """Pull as `lease pull` does, up to every hash compared and on the disk; the load check is left out."""
    from leasehold.lifecycle.pull.connections import Calls

    calls = Calls(transport(root), lambda way: connect(root, way), Path(root).parent / "way.json", _remember(root))
    calls.begin()
    from leasehold.errors import LinkError
    from leasehold.lifecycle.pull.list_reader import Asked, Place
    from leasehold.lifecycle.pull.rate import Pace
    from leasehold.lifecycle.pull.session import begin_chart, open_list, pull
    from leasehold.lifecycle.pull.streams import Way
    from leasehold.lifecycle.results.result_folders import Folders
    from leasehold.model.run.note import Note

    folders = Folders(Path(into), run)
    folders.make()
    engine = calls.first()
    notes: list[Note] = []
    pace = Pace(notes.append)
    place = Place(folders.partial, folders.roofs, folders.check_room)
    try:
        opened = open_list(begin_chart(engine, Asked(run, ["main"], ["**"]), look=True))
        assert opened.first is not None, "the box lists nothing"
        pulled = pull(engine, opened, place, Way(run, calls.more, opened.round_trip_s), pace, notes.append)
        calls.remember(opened.round_trip_s, pulled.total_bytes)
    except LinkError:
        Path(into, "fetched").write_text(str(pace.fetched_bytes))  # for who counts what came twice
        raise
    finally:
        engine.close()
        calls.hang_up()
    streams = max((int(note.data.get("streams", 1)) for note in notes if note.kind == "pulling"), default=1)
    return {"files": len(pulled.sums), "fetched_bytes": pace.fetched_bytes, "streams": streams}


def push_all(root: str, project: str, memory: str) -> dict[str, int]:
    """Push a project's code as `lease run` does."""
    from leasehold.transport.ahead import CalledAhead

    called = CalledAhead(transport(root), _remember(root))
    from leasehold.lifecycle.project.code_tree import read_tree
    from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
    from leasehold.transport.wire import Wire

    tree = read_tree(Path(project), memory=Path(memory))
    engine = CaretakerEngine(Wire(called, root))
    pushed = engine.uploads.push(tree)
    engine.close()
    return {"files": pushed.files, "bytes": pushed.bytes}


def main() -> int:
    """Do it and say what was done."""
    verb, *words = sys.argv[1:]
    print(json.dumps({"pull": pull_all, "push": push_all}[verb](*words)))
    first_call.hang_up()
    gc.freeze()  # as `lease` does
    return 0


if __name__ == "__main__":
    sys.exit(main())
