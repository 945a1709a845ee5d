"""Open a page of the UI and wait until it is loaded."""

from playwright.sync_api import Page, expect


def show(page: Page, address: str, path: str) -> None:
    """Go to a page of the UI and wait until it shows itself, and not that it loads."""
    page.goto(f"{address}/#{path}")
    expect(page.locator("#content h1, #content .empty h2").first).to_be_visible()
    expect(page.locator("#content .loading")).to_have_count(0)
