// Behavioural model of the ECP5 flip-flop, as far as lately.hdl.ecp5 uses it: no enable, no set or
// reset. It starts as 0.
module TRELLIS_FF (
    input CLK,
    input LSR,
    input DI,
    output reg Q
);
    parameter GSR = "ENABLED";
    parameter CEMUX = "CE";
    parameter CLKMUX = "CLK";
    parameter LSRMUX = "LSR";
    parameter REGSET = "RESET";

    initial Q = 0;
    always @(posedge CLK) Q <= DI;
endmodule
