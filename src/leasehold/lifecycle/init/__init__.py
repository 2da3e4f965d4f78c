"""`lease init`: look at a project and write its first job file, or carry one over from another tool."""

from .convert import Conversion, convert
from .facts import ProjectFacts
from .look import look_at
from .start import Started, draft, init
from .write import write_job

__all__ = ["Conversion", "ProjectFacts", "Started", "convert", "draft", "init", "look_at", "write_job"]
