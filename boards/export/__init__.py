"""Export units as files for projects in Verilog, VHDL and other languages."""
