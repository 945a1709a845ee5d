from tests.worker.fixtures import app, postgres_database, store_url

__all__ = ["app", "postgres_database", "store_url"]
