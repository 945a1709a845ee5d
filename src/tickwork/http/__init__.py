"""The server: typed routes over the calls that everybody else makes, too."""
