// Behaviour of the iCE40 block RAM in the mode that ICE40SegmentMemory uses: pairs of bits read,
// words of 16 bits written through a mask (a set mask bit keeps the bit).
// A bit that is read while it is written comes out inverted: nobody may rely on it.

module SB_RAM40_4K (
    output [15:0] RDATA,
    input RCLK, RCLKE, RE,
    input [10:0] RADDR,
    input WCLK, WCLKE, WE,
    input [10:0] WADDR,
    input [15:0] MASK, WDATA
);
    parameter READ_MODE = 0;
    parameter WRITE_MODE = 0;

    reg [15:0] words [0:255];
    reg [15:0] read;
    reg [2:0] column;
    integer index;

    initial begin
        if (READ_MODE != 3 || WRITE_MODE != 0) begin
            $display("SB_RAM40_4K: this mode is not modelled");
            $finish;
        end
        for (index = 0; index < 256; index = index + 1) words[index] = 16'h0000;
    end

    wire writing = WCLKE & WE;

    always @(posedge RCLK) begin
        if (RCLKE & RE) begin
            read <= words[RADDR[7:0]] ^ (writing && WADDR[7:0] == RADDR[7:0] ? ~MASK : 16'h0000);
            column <= RADDR[10:8];
        end
        if (writing) words[WADDR[7:0]] <= (words[WADDR[7:0]] & MASK) | (WDATA & ~MASK);
    end

    assign RDATA = {4'b0, read[{1'b1, column}], 7'b0, read[{1'b0, column}], 3'b0};
endmodule
