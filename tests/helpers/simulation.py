"""Runs a test bench in Amaranth's simulator."""

from amaranth.sim import Simulator


def simulate(design, *benches, background=(), processes=(), period=1e-6):
    """Run a design until all benches have ended; `period` is of its clock in seconds, if any."""
    simulator = Simulator(design)
    if period:
        simulator.add_clock(period)
    for process in processes:
        simulator.add_process(process)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()
