"""Routes for hooks and for the deliveries of other services to them."""
