"""Remove duplicate packets from captures."""
