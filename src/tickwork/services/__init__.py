"""Loops of one shape: `tick(now) -> how many seconds until the next tick`. Running one twice at once is safe."""
