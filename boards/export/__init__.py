"""Exported units: files for projects in Verilog, VHDL and other languages."""
