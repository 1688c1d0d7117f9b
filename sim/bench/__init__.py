"""Test benches in cocotb, and their functional coverage."""
