"""`lease init`: inspect a project and write its first job file, or convert a file of another tool."""

from leasehold.lifecycle.init.convert.convert import Conversion
from leasehold.lifecycle.init.look.look import look_at
from leasehold.lifecycle.init.text.project_facts import ProjectFacts
from leasehold.lifecycle.init.write.write import write_job

from .start import Started, draft, init

__all__ = ["Conversion", "ProjectFacts", "Started", "draft", "init", "look_at", "write_job"]
