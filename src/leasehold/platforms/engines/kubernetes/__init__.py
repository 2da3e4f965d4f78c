"""Run jobs as pods of a Kubernetes cluster, through the user's own kubectl."""
