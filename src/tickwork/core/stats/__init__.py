"""Statistics: rollups, histograms, error groups, and findings that need attention."""
