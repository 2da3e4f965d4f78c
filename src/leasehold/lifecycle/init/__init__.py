"""`lease init`: inspect a project and write its first job file, or convert a file of another tool."""
