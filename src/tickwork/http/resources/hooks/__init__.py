"""Routes for hooks, and for what other services deliver to them."""
