// The Gowin block RAM as GowinSegmentMemory uses it: port A reads or writes words of 1 to 16 bits,
// port B writes single bits, and there is no output register. For undefined bits see garbage.v.

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

    reg [15:0] words [0:`LATELY_DEPTH(1024) - 1];
    reg [15:0] read;
    wire [31:0] noise;
    integer index;

    // The bits of port A's word within its group of 16. The lowest address bits enable the two
    // bytes of a 16-bit word.
    wire [3:0] base = BIT_WIDTH_0 == 16 ? 4'd0 : ADA[3:0] & ~(BIT_WIDTH_0 - 1);
    wire [15:0] lanes = ((17'd1 << BIT_WIDTH_0) - 17'd1) << base;
    wire [15:0] bytes = BIT_WIDTH_0 == 16 ? {{8{ADA[1]}}, {8{ADA[0]}}} : 16'hffff;
    wire [15:0] write = CEA & WREA ? lanes & bytes : 16'd0;
    wire [15:0] single = CEB & WREB ? 16'd1 << ADB[3:0] : 16'd0;
    wire same = ADA[13:4] == ADB[13:4];
    wire [15:0] meeting = {16{same}} & single;
    wire [15:0] held = words[ADA[13:4]];
    wire [15:0] unknown = {16{WREA}} | `LATELY_UNKNOWN(16, lanes, meeting);
    wire [15:0] garbage = `LATELY_GARBAGE(held, noise[31:16]);

    lately_noise noises (.clk(CLKA), .asked({ADA, ADB, 4'd9}), .noise(noise));
    always @(posedge CLKA) begin
        if (CEA) read <= ((held & ~unknown) | (garbage & unknown)) >> base;
        if (|write)
            words[ADA[13:4]] <= (held & ~write & ~meeting) | ((DIA << base) & write)
                | ({16{DIB[0]}} & meeting);
        if (|single & ~(same & |write))
            words[ADB[13:4]] <= (words[ADB[13:4]] & ~single) | ({16{DIB[0]}} & single);
    end

`ifdef FORMAL
    always @* assert (!(write & meeting));
`else
    always @(posedge CLKA) if (write & meeting) $fatal(1, "DPB: two ports write one bit");
    initial begin
        if (BIT_WIDTH_1 != 1 || READ_MODE0 != 0 || WRITE_MODE0 != 0)
            $fatal(1, "DPB: this mode is not modelled");
        for (index = 0; index < `LATELY_DEPTH(1024); index = index + 1) words[index] = `LATELY_CONTENTS;
    end
`endif

    assign DOA = read;
    assign DOB = 16'd0;
endmodule
