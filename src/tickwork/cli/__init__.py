"""The command line. One file for each group of commands: parse, call the client, print."""
