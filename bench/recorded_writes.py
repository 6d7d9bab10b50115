"""Possible contents of a disk after a power cut, from a record of all changes to its files.

strace records each change of a folder by all processes: what they wrote, named, removed and synced.
From that `Disk` makes the states that the folder may have after a cut at any moment. Synced
changes are there. All other changes may be there or not, in three ways:

* ``nothing``: nothing that was not synced, neither content nor names;
* ``names``: all names and no content, as of a file system that delays content;
* ``some``: the names up to a random moment, and a random part of the writes.

Not recorded are changes by memory that is shared with a file; only SQLite's ``-shm`` files, which
it makes again, are written so. Of two writes to one place the newer may not be lost before the
older, and a write is never torn.
"""

import codecs
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

CALLS = (
    "open,openat,creat,lseek,write,pwrite64,writev,ftruncate,fsync,fdatasync,sync,syncfs,"
    "rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,copy_file_range,sendfile"
)
LONGEST = 100_000_000

_LINE = re.compile(r"^(\d+) +(.*)$")
_CALL = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)(<[^>]*>)?.*$", re.DOTALL)
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"^<\.\.\. \w+ resumed>(.*)$", re.DOTALL)
_FILE = re.compile(r"^(?:(\d+)|AT_FDCWD)<(.*?)>$", re.DOTALL)
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Lost(StrEnum):
    """Unsynced changes that a power cut leaves."""

    NOTHING_LEFT = "nothing"
    NAMES_LEFT = "names"
    SOME_LEFT = "some"


@dataclass(kw_only=True)
class Call:
    """A call of the system.

    Attributes:
        name: of the call.
        arguments: as strace writes them.
        result: its result.
        begun: number of the call that was the newest when this one began.
    """

    name: str
    arguments: list[str]
    result: int
    begun: int


def record(command: Sequence[str], log: Path, **options: object) -> None:
    """Run a command to its end and record the changes of files by it and its children.

    Raises:
        CalledProcessError: it failed.
    """
    tracing = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-o", str(log), "-s", str(LONGEST)]
    subprocess.run([*tracing, "-e", f"trace={CALLS}", *command], check=True, **options)  # pyright: ignore


def calls(log: Path, root: Path) -> Iterator[Call]:
    """Yield the calls of a record that succeeded and concern a folder, in their order."""
    begun: dict[str, tuple[str, int]] = {}
    number = 0
    with log.open(encoding="latin-1") as lines:
        for line in lines:
            match = _LINE.match(line.rstrip("\n"))
            if not match:
                continue
            thread, text = match.groups()
            if text.endswith(_UNFINISHED):
                begun[thread] = text.removesuffix(_UNFINISHED), number
                continue
            start = number
            if resumed := _RESUMED.match(text):
                before, start = begun.pop(thread, ("", number))
                text = before + resumed[1]
            call = _CALL.match(text)
            if not call or int(call[3]) < 0:
                continue
            name = call[1]
            if name not in ("sync", "syncfs") and str(root) not in text:
                continue
            number += 1
            yield Call(
                name=name,
                arguments=_arguments(call[2]) + ([call[4]] if call[4] else []),
                result=int(call[3]),
                begun=start,
            )


def _arguments(text: str) -> list[str]:
    arguments, depth, start, quoted, position = [], 0, 0, False, 0
    while position < len(text):
        char = text[position]
        if quoted:
            if char == "\\":
                position += 1
            elif char == '"':
                quoted = False
        elif char == '"':
            quoted = True
        elif char in "[{<":
            depth += 1
        elif char in "]}>":
            depth -= 1
        elif char == "," and not depth:
            arguments.append(text[start:position].strip())
            start = position + 1
        position += 1
    if text:
        arguments.append(text[start:].strip())
    return arguments


def _bytes(argument: str) -> bytes:
    return b"".join(
        codecs.escape_decode(match.encode("latin-1"))[0]  # pyright: ignore
        for match in _TEXT.findall(argument)
    )


@dataclass(eq=False)
class Node:
    """A file: its content when it was last synced, and the writes since.

    Attributes:
        synced: its content that survives.
        writes: numbered changes since: an offset with content, or a length to cut it to.
    """

    synced: bytes = b""
    writes: list[tuple[int, int, bytes | None]] = field(default_factory=list)

    def content(self, chance: random.Random | None = None) -> bytes:
        """Return the content with all writes, or with a random part of the unsynced ones."""
        content = bytearray(self.synced)
        for _, at, data in self.writes:
            if chance and chance.random() < 0.5:
                continue
            if data is None:
                del content[at:]
            else:
                content.extend(bytes(max(0, at - len(content))))
                content[at : at + len(data)] = data
        return bytes(content)


@dataclass(kw_only=True)
class Change:
    """A change of names: a node gets a name, and another name is taken away.

    Attributes:
        number: of its call.
        added: the new path.
        removed: the path that is taken away.
        node: what has the new path; None for a folder.
        unsynced: the folders whose sync makes it survive.
    """

    number: int
    added: Path | None = None
    removed: Path | None = None
    node: Node | None = None
    unsynced: set[Path] = field(default_factory=set)


class Disk:
    """A folder, as processes see it and as it may be after a power cut.

    Args:
        root: the folder, as it is at the start of the record: all in it is synced.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names: dict[Path, Node | None] = {
            path: None if path.is_dir() else Node(path.read_bytes())
            for path in root.rglob("*")
            if path.is_dir() or path.is_file()
        }
        self._synced = dict(self.names)
        self._changes: list[Change] = []
        self._positions: dict[tuple[str, Path], int] = {}
        self._number = 0

    def apply(self, call: Call) -> None:
        """Apply the changes of a call."""
        self._number += 1
        act = getattr(self, f"_{call.name}", None) or getattr(self, f"_{_SAME[call.name]}")
        act(call)

    def _openat(self, call: Call) -> None:
        flags = next((argument for argument in call.arguments if argument.startswith("O_")), "")
        if call.name == "creat":
            flags = "O_CREAT|O_TRUNC"
        path = Path(_decoded(call.arguments[-1].strip("<>")))
        if not self._is_ours(path) or "O_TMPFILE" in flags:
            return
        node = self.names.get(path)
        if "O_CREAT" in flags and path not in self.names:
            node = Node()
            self._name(path, node)
        if node is not None and "O_TRUNC" in flags:
            self._write_to(node, 0, None)
        end = len(node.content()) if node is not None and "O_APPEND" in flags else 0
        self._positions[str(call.result), path] = end

    def _lseek(self, call: Call) -> None:
        fd, path = _file(call.arguments[0])
        self._positions[fd, path] = call.result

    def _write(self, call: Call) -> None:
        fd, path = _file(call.arguments[0])
        data = _bytes(call.arguments[1])[: call.result]
        if node := self.names.get(path):
            at = self._positions.get((fd, path), len(node.content()))
            self._write_to(node, at, data)
            self._positions[fd, path] = at + len(data)

    def _pwrite64(self, call: Call) -> None:
        if node := self.names.get(_file(call.arguments[0])[1]):
            data = _bytes(call.arguments[1])[: call.result]
            self._write_to(node, int(call.arguments[3]), data)

    def _ftruncate(self, call: Call) -> None:
        if node := self.names.get(_file(call.arguments[0])[1]):
            length = int(call.arguments[1])
            missing = length - len(node.content())
            if missing > 0:
                self._write_to(node, length - missing, bytes(missing))
            else:
                self._write_to(node, length, None)

    def _copied(self, call: Call, source: str, target: str) -> None:
        (_, from_), (fd, path) = _file(source), _file(target)
        node, origin = self.names.get(path), self.names.get(from_)
        if node is not None:
            at = self._positions.get((fd, path), len(node.content()))
            # All copies begin at the start and go on where the one before has ended.
            data = (origin.content() if origin else from_.read_bytes())[at : at + call.result]
            self._write_to(node, at, data)
            self._positions[fd, path] = at + call.result

    def _copy_file_range(self, call: Call) -> None:
        self._copied(call, call.arguments[0], call.arguments[2])

    def _sendfile(self, call: Call) -> None:
        self._copied(call, call.arguments[1], call.arguments[0])

    def _fsync(self, call: Call) -> None:
        path = _file(call.arguments[0])[1]
        if path in self.names or path == self.root:
            self._make_durable(path, self.names.get(path), call.begun)

    def _syncall(self, call: Call) -> None:
        for path, node in self.names.items():
            self._make_durable(path, node, call.begun)
        self._make_durable(self.root, None, call.begun)

    def _make_durable(self, path: Path, node: Node | None, begun: int) -> None:
        if node is not None:
            late = [write for write in node.writes if write[0] > begun]
            node.writes = [write for write in node.writes if write[0] <= begun]
            node.synced, node.writes = node.content(), late
            return
        for change in self._changes:
            if change.number <= begun:
                change.unsynced.discard(path)
        left = []
        for change in self._changes:
            if change.unsynced:
                left.append(change)
                continue
            _take_over(self._synced, change)
            for earlier in left:  # are in the folder that has another name now
                earlier.added = _moved(earlier.added, change)
                earlier.removed = _moved(earlier.removed, change)
        self._changes = left

    def _rename(self, call: Call) -> None:
        old, new = _paths(call.arguments)
        if not self._is_ours(old):
            return
        inside = [path for path in self.names if path == old or old in path.parents]
        for path in [path for path in self.names if new in path.parents]:
            del self.names[path]
        folders = {old.parent, new.parent}
        change = Change(
            number=self._number,
            added=new,
            removed=old,
            node=self.names.get(old),
            unsynced=folders,
        )
        for earlier in self._changes:
            earlier.unsynced = {_moved(path, change) or path for path in earlier.unsynced}
        for path in inside:
            self.names[new / path.relative_to(old)] = self.names.pop(path)
        self._changes.append(change)

    def _unlink(self, call: Call) -> None:
        (path,) = _paths(call.arguments)[:1]
        if path in self.names:
            del self.names[path]
            self._changes.append(Change(number=self._number, removed=path, unsynced={path.parent}))

    def _mkdir(self, call: Call) -> None:
        (path,) = _paths(call.arguments)[:1]
        if self._is_ours(path):
            self._name(path, None)

    def _name(self, path: Path, node: Node | None) -> None:
        self.names[path] = node
        self._changes.append(
            Change(number=self._number, added=path, node=node, unsynced={path.parent})
        )

    def _write_to(self, node: Node, at: int, data: bytes | None) -> None:
        node.writes.append((self._number, at, data))

    def _is_ours(self, path: Path) -> bool:
        return self.root in path.parents

    def after_cut(self, lost: Lost, chance: random.Random) -> dict[Path, bytes | None]:
        """Return a content of the folder after a power cut now; None for folders."""
        names = dict(self._synced)
        kept = 0 if lost == Lost.NOTHING_LEFT else len(self._changes)
        if lost == Lost.SOME_LEFT:
            kept = chance.randint(0, kept)
        for change in self._changes[:kept]:
            _take_over(names, change)
        after_cut: dict[Path, bytes | None] = {}
        for path, node in sorted(names.items()):
            if path.parent != self.root and after_cut.get(path.parent, b"") is not None:
                continue  # its folder is not there
            if node is None:
                after_cut[path] = None
            elif lost == Lost.SOME_LEFT:
                after_cut[path] = node.content(chance)
            else:
                after_cut[path] = node.synced
        return after_cut

    def differences(self) -> list[Path]:
        """Return the files that the record has otherwise than the disk; a test of the record."""
        real = {path for path in self.root.rglob("*") if path.is_file() or path.is_dir()}
        wrong = real ^ set(self.names)
        for path in real & set(self.names):
            node = self.names[path]
            if node is not None and node.content() != path.read_bytes():
                wrong.add(path)
        return sorted(path for path in wrong if not path.name.endswith("-shm"))


_SAME = {
    "open": "openat",
    "creat": "openat",
    "writev": "write",
    "fdatasync": "fsync",
    "sync": "syncall",
    "syncfs": "syncall",
    "renameat": "rename",
    "renameat2": "rename",
    "unlinkat": "unlink",
    "rmdir": "unlink",
    "mkdirat": "mkdir",
}


def _moved(path: Path | None, change: Change) -> Path | None:
    """Return where a path is after a change of names."""
    if path is None or change.added is None or change.removed not in (path, *path.parents):
        return path
    return change.added / path.relative_to(change.removed)


def _take_over(names: dict[Path, Node | None], change: Change) -> None:
    if change.added is not None and change.removed is not None:
        moved = [path for path in names if path == change.removed or change.removed in path.parents]
        if change.removed in names:
            for path in [path for path in names if change.added in path.parents]:
                del names[path]
            for path in moved:
                names[change.added / path.relative_to(change.removed)] = names.pop(path)
        return
    if change.added is not None:
        names[change.added] = change.node
    elif change.removed is not None:
        for path in [path for path in names if change.removed in (path, *path.parents)]:
            del names[path]


def _decoded(text: str) -> str:
    return codecs.escape_decode(text.encode("latin-1"))[0].decode()  # pyright: ignore


def _file(argument: str) -> tuple[str, Path]:
    match = _FILE.match(argument)
    if not match:
        return "", Path()
    return match[1] or "", Path(_decoded(match[2]))


def _paths(arguments: list[str]) -> list[Path]:
    """Return the paths that a call names; a relative one follows its folder."""
    paths, folder = [], Path()
    for argument in arguments:
        if _FILE.match(argument):
            folder = _file(argument)[1]
        elif argument.startswith('"'):
            paths.append(folder / _decoded(argument[1:-1]))
    return paths


def put_in_place(root: Path, content: dict[Path, bytes | None]) -> None:
    """Give a folder a content."""
    shutil.rmtree(root)
    root.mkdir()
    for path, data in sorted(content.items()):
        if data is None:
            path.mkdir(parents=True)
        else:
            path.write_bytes(data)
