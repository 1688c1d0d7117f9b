"""Memories for segments, cells and queues, with variants for device families."""
