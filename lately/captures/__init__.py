"""Captures of packets: their records, keys from their headers, and streams of two taps."""
