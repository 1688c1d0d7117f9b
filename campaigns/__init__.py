"""Campaigns: repeatable measurements of hardware, golden models and commands."""
