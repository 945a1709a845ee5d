"""One attempt in a child: run the handler, capture its output, and map its outcome."""
