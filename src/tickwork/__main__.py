"""`python -m tickwork` is the `tickwork` command."""

from tickwork.cli.main import main

main()
