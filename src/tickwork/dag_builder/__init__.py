"""How a function becomes the graph of a dag: what its author holds while it is traced, and what is written down."""
