"""Filters of other papers, for comparison with the sliding-window filters."""
