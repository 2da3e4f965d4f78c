"""Readers for the files of other libraries: by kind."""

from __future__ import annotations

from typing import Callable, Dict

from leasehold.kit.readers.base.bounded_file import Source
from leasehold.kit.readers.base.result import Limits, Reading
from leasehold.kit.readers.formats.models.gguf import read_gguf
from leasehold.kit.readers.formats.models.hdf5 import read_hdf5
from leasehold.kit.readers.formats.models.keras import read_keras
from leasehold.kit.readers.formats.models.onnx import read_onnx
from leasehold.kit.readers.formats.models.tfevents import read_tfevents
from leasehold.kit.readers.formats.pickled.joblib_files import read_joblib
from leasehold.kit.readers.formats.pickled.pickle_files import read_pickle
from leasehold.kit.readers.formats.tables.arrow import read_arrow
from leasehold.kit.readers.formats.tables.parquet import read_parquet

from .tar_gz import read_tar_gz
from .yaml_text import read_yaml
from .zip_archives import read_zip

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
