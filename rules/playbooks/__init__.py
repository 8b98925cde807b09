"""The playbooks that come with Trimtab, as YAML files; docs/playbooks.md tells how each walks."""
