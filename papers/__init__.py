"""The papers' tables and figures, measured anew."""
