// The iCE40 block RAM in the mode that ICE40SegmentMemory uses: pairs of bits read, words of 16 bits
// written through a mask (a set mask bit keeps the bit). What is garbage: see DP16KD.v.

`ifndef LATELY_SEED
`define LATELY_SEED 1
`endif
`ifndef LATELY_WORDS
`define LATELY_WORDS 256
`endif

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

    reg [15:0] words [0:`LATELY_WORDS - 1];
    reg [15:0] read;
    reg [2:0] column;
    reg [31:0] noise = `LATELY_SEED;
    integer index;

    wire writing = WCLKE & WE;
    wire [15:0] held = words[RADDR[7:0]];
    wire [15:0] meeting = writing & WADDR[7:0] == RADDR[7:0] ? ~MASK : 16'd0;
`ifdef LATELY_STRICT
    wire [15:0] unknown = {16{|meeting}};
`else
    wire [15:0] unknown = meeting;
`endif
`ifdef FORMAL
    wire [15:0] garbage = $anyseq;
`elsif LATELY_INVERTED
    wire [15:0] garbage = ~held;
`else
    wire [15:0] garbage = noise[31:16];
`endif

    always @(posedge RCLK) begin
        noise <= (noise ^ {RADDR, WADDR, 10'd9}) * 32'd1664525 + 32'd1013904223;
        if (RCLKE & RE) begin
            read <= (held & ~unknown) | (garbage & unknown);
            column <= RADDR[10:8];
        end
        if (writing) words[WADDR[7:0]] <= (words[WADDR[7:0]] & MASK) | (WDATA & ~MASK);
    end

`ifndef FORMAL
    initial begin
        if (READ_MODE != 3 || WRITE_MODE != 0)
            $fatal(1, "SB_RAM40_4K: this mode is not modelled");
        for (index = 0; index < `LATELY_WORDS; index = index + 1) words[index] = 16'd0;
    end
`endif

    assign RDATA = {4'b0, read[{1'b1, column}], 7'b0, read[{1'b0, column}], 3'b0};
endmodule
