// The ECP5 block RAM. Reads return only what the vendor defines: a word in a cycle in which its
// port does not write, or in mode READBEFOREWRITE the previous content, for the widths that support
// it; in both cases without the bits that the other port writes in this cycle. All other bits are
// undefined, see garbage.v. Simulation stops if both ports write the same bit.

module DP16KD (
    input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9,
    input DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
    input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7,
    input ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9,
    output DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
    input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
    input DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7,
    input ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9,
    output DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
    parameter DATA_WIDTH_A = 18;
    parameter DATA_WIDTH_B = 18;
    parameter REGMODE_A = "NOREG";
    parameter REGMODE_B = "NOREG";
    parameter WRITEMODE_A = "NORMAL";
    parameter WRITEMODE_B = "NORMAL";
    parameter RESETMODE = "SYNC";
    parameter GSR = "ENABLED";
    parameter CSDECODE_A = "0b000";
    parameter CSDECODE_B = "0b000";

    // In the order of the widest port: bits 8 and 17 are the ninth bits of the bytes.
    reg [17:0] words [0:`LATELY_DEPTH(1024) - 1];
    reg [17:0] read_a, read_b, register_a, register_b;
    wire [31:0] noise;
    integer index;

    wire [13:0] a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7,
                     ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [13:0] b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7,
                     ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
    wire [17:0] in_a = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9,
                        DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
    wire [17:0] in_b = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
                        DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};

    // Position of a port's word within 18 bits; the bits that it covers; the bits that it may
    // write.
    function [4:0] base(input integer width, input [3:0] address);
        base = width == 18 ? 0 : (address & ~((width == 9 ? 8 : width) - 1)) + address[3];
    endfunction
    function [17:0] whole(input integer width, input [3:0] address);
        whole = ((19'd1 << width) - 19'd1) << base(width, address);
    endfunction
    function [17:0] enabled(input integer width, input [3:0] address);
        enabled = width == 18 ? {{9{address[1]}}, {9{address[0]}}} : {18{width < 9 | address[0]}};
    endfunction
    wire [17:0] all_a = whole(DATA_WIDTH_A, a[3:0]);
    wire [17:0] all_b = whole(DATA_WIDTH_B, b[3:0]);
    wire [17:0] write_a = all_a & enabled(DATA_WIDTH_A, a[3:0]) & {18{CEA & WEA}};
    wire [17:0] write_b = all_b & enabled(DATA_WIDTH_B, b[3:0]) & {18{CEB & WEB}};
    wire [17:0] value_a = in_a << base(DATA_WIDTH_A, a[3:0]);
    wire [17:0] value_b = in_b << base(DATA_WIDTH_B, b[3:0]);
    wire same = a[13:4] == b[13:4];

    wire [17:0] meeting = {18{same}} & write_b;
    wire [17:0] meeting_b = {18{same}} & write_a;
    wire [17:0] before_a = words[a[13:4]];
    wire [17:0] before_b = words[b[13:4]];
    // Only for widths of 9 and 18 bits.
    wire before_write_a = WRITEMODE_A == "READBEFOREWRITE" && DATA_WIDTH_A >= 9;
    wire before_write_b = WRITEMODE_B == "READBEFOREWRITE" && DATA_WIDTH_B >= 9;
    wire [17:0] unknown_a = {18{WEA & ~before_write_a}} | `LATELY_UNKNOWN(18, all_a, meeting);
    wire [17:0] unknown_b = {18{WEB & ~before_write_b}} | `LATELY_UNKNOWN(18, all_b, meeting_b);
    wire [17:0] garbage_a = `LATELY_GARBAGE(before_a, noise[17:0]);
    wire [17:0] garbage_b = `LATELY_GARBAGE(before_b, noise[31:14]);

    lately_noise noises (.clk(CLKA), .asked({a, b, 4'd9}), .noise(noise));
    always @(posedge CLKA) begin
        if (CEA) read_a <= ((before_a & ~unknown_a) | (garbage_a & unknown_a)) >> base(DATA_WIDTH_A, a[3:0]);
        if (CEB) read_b <= ((before_b & ~unknown_b) | (garbage_b & unknown_b)) >> base(DATA_WIDTH_B, b[3:0]);
        if (OCEA) register_a <= read_a;
        if (OCEB) register_b <= read_b;
        if (|write_a)
            words[a[13:4]] <= (before_a & ~write_a & ~meeting) | (value_a & write_a) | (value_b & meeting);
        if (|write_b & ~(same & |write_a))
            words[b[13:4]] <= (before_b & ~write_b) | (value_b & write_b);
    end

`ifdef FORMAL
    always @* assert (!(write_a & meeting));
`else
    always @(posedge CLKA) if (write_a & meeting) $fatal(1, "DP16KD: two ports write one bit");
    initial begin
        if (!(WRITEMODE_A == "NORMAL" || (WRITEMODE_A == "READBEFOREWRITE" && DATA_WIDTH_A >= 9))
                || !(WRITEMODE_B == "NORMAL" || (WRITEMODE_B == "READBEFOREWRITE" && DATA_WIDTH_B >= 9)))
            $fatal(1, "DP16KD: this mode is not modelled");
        for (index = 0; index < `LATELY_DEPTH(1024); index = index + 1) words[index] = `LATELY_CONTENTS;
    end
`endif

    assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9,
            DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} =
        REGMODE_A == "OUTREG" ? register_a : read_a;
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9,
            DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} =
        REGMODE_B == "OUTREG" ? register_b : read_b;
endmodule
