"""Readers of the files that other libraries write: by kind."""

from __future__ import annotations

from typing import Callable, Dict

from leasehold.kit.readers.formats.arrow import read_arrow
from leasehold.kit.readers.formats.gguf import read_gguf
from leasehold.kit.readers.formats.hdf5 import read_hdf5
from leasehold.kit.readers.formats.joblib_files import read_joblib
from leasehold.kit.readers.formats.keras import read_keras
from leasehold.kit.readers.formats.onnx import read_onnx
from leasehold.kit.readers.formats.parquet import read_parquet
from leasehold.kit.readers.formats.pickles import read_pickle
from leasehold.kit.readers.formats.tar_gz import read_tar_gz
from leasehold.kit.readers.formats.tfevents import read_tfevents
from leasehold.kit.readers.formats.yaml_text import read_yaml
from leasehold.kit.readers.formats.zips import read_zip
from leasehold.kit.readers.reading import Limits, Reading
from leasehold.kit.readers.source import Source

FORMATS: Dict[str, Callable[[Source, Limits], Reading]] = {
    "pickle": read_pickle,
    "joblib": read_joblib,
    "zip": read_zip,
    "tar.gz": read_tar_gz,
    "yaml": read_yaml,
    "tfevents": read_tfevents,
    "gguf": read_gguf,
    "onnx": read_onnx,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "hdf5": read_hdf5,
    "keras": read_keras,
}
