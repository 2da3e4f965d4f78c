"""Write small artifacts by hand, true ones and lying ones, with nothing but the stdlib."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Sequence, Tuple, Union

# ---------------------------------------------------------------- npy and safetensors


def npy(data: bytes = b"\0" * 24, header: Optional[str] = None, version: int = 1) -> bytes:
    """Write an .npy; the default is six 4-byte floats."""
    text = header if header is not None else "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    body = text.encode("utf-8") + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(body))
    return b"\x93NUMPY" + bytes([version, 0]) + length + body + data


def npy_header(descr: str, shape: str) -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


def safetensors(header: object, data: bytes = b"") -> bytes:
    """Write a safetensors file; `header` is JSON data, or text to put there as it is."""
    text = header if isinstance(header, str) else json.dumps(header)
    body = text.encode("utf-8")
    return struct.pack("<Q", len(body)) + body + data


def span(dtype: str, shape: List[int], begin: int, end: int) -> Dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


# ---------------------------------------------------------------- zip


@dataclass(frozen=True)
class Member:
    """One zip member; what is None is told truthfully."""

    name: Union[str, bytes]
    data: bytes = b""
    deflate: bool = False
    descriptor: bool = False
    raw: Optional[bytes] = None  # stored bytes, when not made from data
    method: Optional[int] = None
    flags: int = 0
    crc: Optional[int] = None
    size: Optional[int] = None
    local_name: Optional[bytes] = None
    local_size: Optional[int] = None
    offset: Optional[int] = None
    central_extra: bytes = b""

    @property
    def raw_name(self) -> bytes:
        return self.name.encode("utf-8") if isinstance(self.name, str) else self.name

    def stored(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if not self.deflate:
            return self.data
        press = zlib.compressobj(9, zlib.DEFLATED, -15)
        return press.compress(self.data) + press.flush()


def zip_bytes(
    members: Sequence[Member], gap: bytes = b"", prefix: bytes = b"", comment: bytes = b"", suffix: bytes = b""
) -> bytes:
    """Write a zip; `gap` goes between the last member and the directory."""
    body, directory = bytearray(prefix), bytearray()
    for member in members:
        directory += _central(member, len(body))
        body += _local(member)
    body += gap
    start = len(body)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), start, len(comment))
    return bytes(body + directory) + end + comment + suffix


def _facts(member: Member) -> Tuple[int, int, int, int, int]:
    stored = member.stored()
    crc = zlib.crc32(member.data) if member.crc is None else member.crc
    size = len(member.data) if member.size is None else member.size
    method = (8 if member.deflate else 0) if member.method is None else member.method
    stored_size = size if method == 0 and member.size is not None else len(stored)
    return member.flags | (8 if member.descriptor else 0), method, crc, stored_size, size


def _local(member: Member) -> bytes:
    flags, method, crc, stored_size, size = _facts(member)
    sizes = (0, 0, 0) if member.descriptor else (crc, stored_size, size)
    if member.local_size is not None:
        sizes = (crc, member.local_size, member.local_size)
    name = member.raw_name if member.local_name is None else member.local_name
    head = struct.pack("<4s5H3I2H", b"PK\3\4", 20, flags, method, 0, 0, *sizes, len(name), 0)
    tail = struct.pack("<4s3I", b"PK\7\x08", crc, stored_size, size) if member.descriptor else b""
    return head + name + member.stored() + tail


def _central(member: Member, offset: int) -> bytes:
    flags, method, crc, stored_size, size = _facts(member)
    name, extra = member.raw_name, member.central_extra
    at = offset if member.offset is None else member.offset
    sizes = (crc, stored_size, size, len(name), len(extra))
    head = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, flags, method, 0, 0, *sizes, 0, 0, 0, 0, at)
    return head + name + extra


# ---------------------------------------------------------------- pickle


def text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def named(path: str) -> bytes:
    module, _, name = path.rpartition(".")
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def tuple_of(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def called(path: str, *arguments: bytes) -> bytes:
    return named(path) + tuple_of(*arguments) + b"R"


def mapping(items: Dict[str, bytes]) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


def finished(value: bytes) -> bytes:
    return b"\x80\x02" + value + b"."


def storage(key: str, numel: int, kind: str = "torch.FloatStorage") -> bytes:
    return tuple_of(text("storage"), named(kind), text(key), text("cpu"), number(numel)) + b"Q"


@dataclass(frozen=True)
class Tensor:
    """A float tensor over storage `key` of `numel` elements."""

    key: str = "0"
    numel: int = 6
    size: Tuple[int, ...] = (2, 3)
    stride: Tuple[int, ...] = (3, 1)
    offset: int = 0
    kind: str = "torch.FloatStorage"

    def pickle(self) -> bytes:
        numbers = [tuple_of(*map(number, each)) for each in (self.size, self.stride)]
        hooks = called("collections.OrderedDict")
        where = storage(self.key, self.numel, self.kind)
        return called("torch._utils._rebuild_tensor_v2", where, number(self.offset), *numbers, b"\x89", hooks)


# ---------------------------------------------------------------- torch


def torch_members(pickle: bytes, storages: Optional[Dict[str, bytes]] = None, folder: str = "best") -> List[Member]:
    """Return the members torch.save would write."""
    kept = {"0": b"\0" * 24} if storages is None else storages
    data = [Member(f"{folder}/data/{key}", value, descriptor=True) for key, value in kept.items()]
    return [
        Member(f"{folder}/data.pkl", pickle, descriptor=True),
        Member(f"{folder}/byteorder", b"little", descriptor=True),
        *data,
        Member(f"{folder}/version", b"3\n", descriptor=True),
    ]


def torch_zip(pickle: bytes, storages: Optional[Dict[str, bytes]] = None) -> bytes:
    return zip_bytes(torch_members(pickle, storages))


def checkpoint() -> bytes:
    """A true checkpoint of two tensors over one storage, a step and a set of names."""
    items = {
        "model": mapping({"w": Tensor().pickle(), "tail": Tensor(size=(2,), stride=(1,), offset=4).pickle()}),
        "step": number(70000),
        "names": called("__builtin__.set", b"](" + text("a") + text("b") + b"e"),
    }
    return torch_zip(finished(mapping(items)))


def with_member(members: Sequence[Member], name: str, **changes: object) -> List[Member]:
    """Return the members, the one whose name ends so changed."""
    return [replace(m, **changes) if m.raw_name.endswith(name.encode()) else m for m in members]  # type: ignore[arg-type]


LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def legacy_storage(key: str, numel: int, kind: str = "torch.FloatStorage", view: bytes = b"N") -> bytes:
    return tuple_of(text("storage"), named(kind), text(key), text("cpu"), number(numel), view) + b"Q"


def legacy_tensor(key: str = "0", numel: int = 6) -> bytes:
    numbers = [tuple_of(number(2), number(3)), tuple_of(number(3), number(1))]
    hooks = called("collections.OrderedDict")
    return called("torch._utils._rebuild_tensor_v2", legacy_storage(key, numel), number(0), *numbers, b"\x89", hooks)


def torch_legacy(
    value: Optional[bytes] = None, keys: Sequence[str] = ("0",), raw: Optional[bytes] = None, protocol: int = 1001
) -> bytes:
    """Write what torch.save wrote before 1.6: magic, protocol, the writer's sizes, the value, the keys, the bytes."""
    listed = b"](" + b"".join(map(text, keys)) + b"e"
    sizes = mapping({"little_endian": b"\x88", "protocol_version": number(1001)})
    value = mapping({"model": mapping({"w": legacy_tensor()}), "step": number(3)}) if value is None else value
    pickles = b"".join(map(finished, (number(protocol), sizes, value, listed)))
    return LEGACY_MAGIC + pickles + (struct.pack("<q", 6) + b"\0" * 24 if raw is None else raw)


# ---------------------------------------------------------------- tar


def tar_member(
    name: bytes, data: bytes = b"", kind: bytes = b"0", size: Optional[bytes] = None, checksum: Optional[int] = None
) -> bytes:
    """Write one tar member, its header's checksum true unless told otherwise."""
    head = bytearray(512)
    head[:100] = name[:100].ljust(100, b"\0")
    head[100:124] = b"0000644\0" + b"0000000\0" * 2
    head[124:136] = size if size is not None else b"%011o\0" % len(data)
    head[136:148] = b"00000000000\0"
    head[148:156] = b" " * 8
    head[156:157] = kind
    head[257:265] = b"ustar\00000"
    total = sum(head) if checksum is None else checksum
    head[148:156] = b"%06o\0 " % total
    return bytes(head) + data.ljust(-(-len(data) // 512) * 512, b"\0")


TAR_END = b"\0" * 1024


# ---------------------------------------------------------------- torch's DCP

_DCP = "torch.distributed.checkpoint."


@dataclass(frozen=True)
class Saved:
    """A value that DCP saved in one piece; a tensor when it has a size."""

    name: str
    shard: str
    offset: int
    length: int
    size: Tuple[int, ...] = ()


def dcp_object(path: str, fields: Dict[str, bytes]) -> bytes:
    return named(_DCP + path) + b")\x81" + mapping(fields) + b"b"


def dcp_sizes(sizes: Sequence[int]) -> bytes:
    return called("torch.Size", tuple_of(*map(number, sizes)))


def dcp_chunk(offsets: Sequence[int], sizes: Sequence[int]) -> bytes:
    return dcp_object("metadata.ChunkStorageMetadata", {"offsets": dcp_sizes(offsets), "sizes": dcp_sizes(sizes)})


def _dcp_place(shard: str, offset: int, length: int) -> bytes:
    fields = {"relative_path": text(shard), "offset": number(offset), "length": number(length)}
    return dcp_object("filesystem._StorageInfo", fields)


def _dcp_index(name: str, offset: Optional[Sequence[int]]) -> bytes:
    at = b"N" if offset is None else dcp_sizes(offset)
    return dcp_object("metadata.MetadataIndex", {"fqn": text(name), "offset": at})


def _dcp_top(saved: Dict[str, bytes], stored: Sequence[bytes], more: Optional[Dict[str, bytes]] = None) -> bytes:
    fields = {"state_dict_metadata": mapping(saved), "storage_data": b"}(" + b"".join(stored) + b"u", **(more or {})}
    return finished(dcp_object("metadata.Metadata", fields))


def dcp_list(listed: Sequence[Saved], more: Optional[Dict[str, bytes]] = None) -> bytes:
    """Write a folder's list; `more` are further fields of it."""
    saved, stored = {}, []
    for value in listed:
        start = (0,) * len(value.size) if value.size else None
        saved[value.name] = dcp_object("metadata.BytesStorageMetadata", {})
        if value.size:
            saved[value.name] = _dcp_tensor_facts(value.size, [dcp_chunk((0,) * len(value.size), value.size)])
        stored.append(_dcp_index(value.name, start) + _dcp_place(value.shard, value.offset, value.length))
    return _dcp_top(saved, stored, more)


def _dcp_tensor_facts(size: Sequence[int], chunks: Sequence[bytes]) -> bytes:
    fields = {"size": dcp_sizes(size), "chunks": b"](" + b"".join(chunks) + b"e"}
    return dcp_object("metadata.TensorStorageMetadata", fields)


def dcp_tensor(
    name: str, size: Sequence[int], chunks: Sequence[bytes], shard: str, length: int, places: Sequence[Sequence[int]]
) -> bytes:
    """Write the list of a folder with one tensor, whose parts of this length lie end to end."""
    stored = [_dcp_index(name, at) + _dcp_place(shard, n * length, length) for n, at in enumerate(places)]
    return _dcp_top({name: _dcp_tensor_facts(size, chunks)}, stored)
