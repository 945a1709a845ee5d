"""Runs of dags in the store: advance them, and make the jobs of their steps. The same for both stores."""
