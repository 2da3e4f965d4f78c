"""Keras 3's files (.keras): a zip with a description, which may need code, and weights as HDF5."""

from __future__ import annotations

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import Limits, Reading, Unreadable
from leasehold.kit.readers.formats.zip_archives import checked
from leasehold.kit.readers.zips.zip_directory import STORED
from leasehold.kit.readers.zips.zip_records import check_record, open_archive

from .hdf5 import read_hdf5
from .keras_config import opaque_layers

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_MOST_CONFIG_BYTES = 64 << 20


def read_keras(source: Source, limits: Limits) -> Reading:
    """Check the zip itself, the model's description for code, and the weights as the HDF5 file that they are."""
    files = checked(source, open_archive(source, limits, folders=True))
    for name in (_CONFIG, _WEIGHTS):
        if name not in files:
            raise Unreadable("is a zip without %s, so Keras 3 did not write it" % name)
    if files[_CONFIG].bytes > _MOST_CONFIG_BYTES:
        raise Unreadable("%s has %d bytes; at most %d are read" % (_CONFIG, files[_CONFIG].bytes, _MOST_CONFIG_BYTES))
    opaque = opaque_layers(check_record(source, files[_CONFIG], files[_CONFIG].bytes), limits)
    weights = files[_WEIGHTS]
    if weights.entry.method != STORED:
        unread = "every CRC right; the weights are compressed inside the zip and not looked at"
        return Reading("keras", source.size, 0, 0, (), tuple(opaque), (unread,))
    found = read_hdf5(source.window(weights.data_at, weights.bytes), limits)
    notes = ("every CRC right", *found.notes)
    return Reading("keras", source.size, found.tensors, found.numel, found.keys, tuple(opaque), notes, found.numbers)
