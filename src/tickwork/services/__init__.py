"""Background services: loops of one shape, `tick(now) -> seconds until the next tick`, safe to run concurrently."""
