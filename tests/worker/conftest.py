from tests.worker.fixtures import app, postgres_template, store_url

__all__ = ["app", "postgres_template", "store_url"]
