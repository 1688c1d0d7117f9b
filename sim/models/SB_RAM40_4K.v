// The iCE40 block RAM, with words of 16 >> MODE bits at either port. 16-bit words are written
// through a mask; a mask bit of 1 keeps the bit. For undefined bits see garbage.v.

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
    // Set by synthesis. They have no effect, because no word is read before it is written.
    parameter INIT_0 = 0, INIT_1 = 0, INIT_2 = 0, INIT_3 = 0, INIT_4 = 0, INIT_5 = 0, INIT_6 = 0,
        INIT_7 = 0, INIT_8 = 0, INIT_9 = 0, INIT_A = 0, INIT_B = 0, INIT_C = 0, INIT_D = 0,
        INIT_E = 0, INIT_F = 0;

    reg [15:0] words [0:`LATELY_DEPTH(256) - 1];
    reg [15:0] read;
    reg [2:0] column;
    wire [31:0] noise;
    integer index;

    // A narrow word has one bit in each group of 1 << MODE bits, chosen by the high address bits;
    // in the data, each bit is at position PLACE of its group.
    function [15:0] chosen(input integer mode, input [2:0] high);
        integer bit_;
        for (bit_ = 0; bit_ < 16; bit_ = bit_ + 1)
            chosen[bit_] = bit_ % (1 << mode) == high % (1 << mode);
    endfunction
    function [15:0] spread(input integer mode, input [15:0] data);
        integer bit_;
        for (bit_ = 0; bit_ < 16; bit_ = bit_ + 1)
            spread[bit_] = data[bit_ - bit_ % (1 << mode) + (mode == 3 ? 3 : mode == 2 ? 1 : 0)];
    endfunction
    function [15:0] gathered(input integer mode, input [15:0] data, input [2:0] high);
        integer bit_;
        for (bit_ = 0; bit_ < 16; bit_ = bit_ + 1)
            gathered[bit_] = bit_ % (1 << mode) == (mode == 3 ? 3 : mode == 2 ? 1 : 0)
                & data[bit_ - bit_ % (1 << mode) + high % (1 << mode)];
    endfunction

    wire [15:0] write = {16{WCLKE & WE}} & (WRITE_MODE == 0 ? ~MASK : chosen(WRITE_MODE, WADDR[10:8]));
    wire [15:0] held = words[RADDR[7:0]];
    wire [15:0] meeting = {16{WADDR[7:0] == RADDR[7:0]}} & write;
    wire [15:0] unknown = `LATELY_UNKNOWN(16, 16'hffff, meeting);
    wire [15:0] garbage = `LATELY_GARBAGE(held, noise[31:16]);

    lately_noise noises (.clk(RCLK), .asked({RADDR, WADDR, 10'd9}), .noise(noise));
    always @(posedge RCLK) begin
        if (RCLKE & RE) begin
            read <= (held & ~unknown) | (garbage & unknown);
            column <= RADDR[10:8];
        end
        if (WCLKE & WE)
            words[WADDR[7:0]] <= (words[WADDR[7:0]] & ~write) | (spread(WRITE_MODE, WDATA) & write);
    end

`ifndef FORMAL
    initial for (index = 0; index < `LATELY_DEPTH(256); index = index + 1) words[index] = `LATELY_CONTENTS;
`endif

    assign RDATA = gathered(READ_MODE, read, column);
endmodule
