"""Front end of a unit: admits operations and ends generations."""
