"""Studies: points are measured one by one, recorded, judged and drawn."""
