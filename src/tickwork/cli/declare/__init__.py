"""Commands that read declared work from files: apply, check and import."""
