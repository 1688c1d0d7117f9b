"""Runs studies: measures points, records and judges the results, and draws charts."""
