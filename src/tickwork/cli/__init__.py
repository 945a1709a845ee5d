"""Command line interface: a module for each group of commands, which parses options, calls the client and prints."""
