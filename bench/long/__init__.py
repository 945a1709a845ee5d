"""What takes longer than minutes to find out: held snapshots, bursts, sustained load, many sleepers, large stores."""
