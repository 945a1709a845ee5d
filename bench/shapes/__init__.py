"""An experiment that compares table designs ("shapes") for jobs: the same work on several shapes.

Nothing here is shipped. A shape has only the parts that determine the cost in the product: the order of claims, the
lease and the fence, the result and the history. docs/adr/0006 has the results and the decision.
"""
