"""Claiming under limits: which queued jobs may start now. The same for both stores."""
