"""cocotb benches and their coverage."""
