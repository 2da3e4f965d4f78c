"""Download what the job names: a watcher, a worker, and the store they fill."""
