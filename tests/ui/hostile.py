"""Names that would run code in a page: a page that reads one as HTML shows an element for it."""

HOSTILE = "<img src=x onerror=alert(1)>"
MAIL = f"mail {HOSTILE}"
