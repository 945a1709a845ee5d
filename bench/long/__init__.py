"""Long benchmarks: held snapshots, bursts, sustained load, many sleeping jobs, large stores."""
