"""Written fakes of other people's services."""
