"""Hash functions as pipelines, and their secrets."""
