"""Background services: loops with a method `tick(now) -> seconds until the next tick`, safe to run concurrently."""
