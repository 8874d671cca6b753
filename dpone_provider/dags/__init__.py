"""DAGs and task groups out of manifests. Parsing reads YAML and touches nothing else (F1)."""
