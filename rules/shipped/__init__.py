"""The alert rules that come with Trimtab, as YAML files; docs/alerts.md tells of each."""
