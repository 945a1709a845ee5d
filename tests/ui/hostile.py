"""What somebody would name things to run code in others' pages: one that reads it as HTML gives itself away."""

HOSTILE = "<img src=x onerror=alert(1)>"
MAIL = f"mail {HOSTILE}"
