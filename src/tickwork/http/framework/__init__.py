"""Typed routes: parameters, problems, conditional requests and OpenAPI."""
