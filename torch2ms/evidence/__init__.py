"""The evidence behind the API rules: probes run on both frameworks, the page of rules, the names of each version."""
