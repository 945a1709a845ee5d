"""Builds the graph of a dag by tracing its function: references, recorded steps, blocks and loops."""
