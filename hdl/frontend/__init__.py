"""Front end of a unit: accepts operations and ends generations."""
