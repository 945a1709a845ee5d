"""Commands that read declarations from files: apply, check and import."""
