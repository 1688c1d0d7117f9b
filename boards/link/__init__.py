"""A unit behind a serial line: frames, requests, self-test."""
