"""Which tables should a job's life be written to? An experiment: the same work on several shapes, measured alike.

Nothing here is shipped. A shape has what costs in the product and no more: the order of claims, the lease and the
fence, the result and the history. docs/adr/0006 says what was found and what was kept.
"""
