"""Claim queued jobs under limits and gates. The algorithm is the same for both stores."""
