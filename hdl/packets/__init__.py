"""Hardware for Ethernet frames: digests and deduplication."""
