// Behaviour of the Gowin block RAM in the mode that GowinSegmentMemory uses: port A reads or
// writes words of 1 to 16 bits and holds its output while it writes, port B writes single bits;
// no output register.
// A bit that port A reads while port B writes it comes out inverted, and one that both write
// is inverted: nobody may rely on it.

module DPB (
    input CLKA, CEA, OCEA, RESETA, WREA,
    input [2:0] BLKSELA,
    input [13:0] ADA,
    input [15:0] DIA,
    output [15:0] DOA,
    input CLKB, CEB, OCEB, RESETB, WREB,
    input [2:0] BLKSELB,
    input [13:0] ADB,
    input [15:0] DIB,
    output [15:0] DOB
);
    parameter BIT_WIDTH_0 = 16;
    parameter BIT_WIDTH_1 = 16;
    parameter READ_MODE0 = 1'b0;
    parameter READ_MODE1 = 1'b0;
    parameter WRITE_MODE0 = 2'b00;
    parameter WRITE_MODE1 = 2'b00;
    parameter BLK_SEL_0 = 3'b000;
    parameter BLK_SEL_1 = 3'b000;
    parameter RESET_MODE = "SYNC";

    reg [15:0] words [0:1023];
    reg [15:0] read;
    integer index;

    initial begin
        if (BIT_WIDTH_1 != 1 || READ_MODE0 != 0 || WRITE_MODE0 != 0) begin
            $display("DPB: this mode is not modelled");
            $finish;
        end
        for (index = 0; index < 1024; index = index + 1) words[index] = 16'h0000;
    end

    // The bits of port A's word within the 16 that it lies in.
    wire [3:0] base = BIT_WIDTH_0 == 16 ? 4'd0 : ADA[3:0] & ~(BIT_WIDTH_0 - 1);
    wire [15:0] lanes = ((17'd1 << BIT_WIDTH_0) - 17'd1) << base;
    // The two bytes of a word of 16 are enabled by the lowest address bits.
    wire [15:0] bytes = BIT_WIDTH_0 == 16 ? {{8{ADA[1]}}, {8{ADA[0]}}} : 16'hffff;
    wire [15:0] mask = CEA & WREA ? lanes & bytes : 16'h0000;
    wire [15:0] word = (words[ADA[13:4]] & ~mask) | ((DIA << base) & mask);
    wire [15:0] single = CEB & WREB ? 16'h0001 << ADB[3:0] : 16'h0000;
    wire [15:0] unknown = ADA[13:4] == ADB[13:4] ? single : 16'h0000;

    always @(posedge CLKA) begin
        if (CEA & ~WREA) read <= (words[ADA[13:4]] ^ unknown) >> base;
        if (CEB & WREB) words[ADB[13:4]] <= (words[ADB[13:4]] & ~single) | ({16{DIB[0]}} & single);
        if (CEA & WREA) words[ADA[13:4]] <= word ^ unknown;
    end

    assign DOA = read & ((17'd1 << BIT_WIDTH_0) - 17'd1);
    assign DOB = 16'h0000;
endmodule
