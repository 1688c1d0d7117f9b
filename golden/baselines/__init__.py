"""Filters of other papers that the sliding-window filters are measured beside."""
