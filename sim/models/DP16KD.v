// Behaviour of the ECP5 block RAM in the mode that ECP5SegmentMemory uses: port A one bit wide,
// read before write, with output register; port B words of 16 bits (of 18), write only.
// A bit that port A reads while port B writes its word comes out inverted: nobody may rely on it.

module DP16KD (
    input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9,
    input DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
    input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7,
    input ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    output DOA0,
    input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
    input DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7,
    input ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0
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

    reg [15:0] words [0:1023];
    reg read, register;
    integer index;

    initial begin
        if (DATA_WIDTH_A != 1 || DATA_WIDTH_B != 18 || REGMODE_A != "OUTREG"
                || WRITEMODE_A != "READBEFOREWRITE") begin
            $display("DP16KD: this mode is not modelled");
            $finish;
        end
        for (index = 0; index < 1024; index = index + 1) words[index] = 16'h0000;
    end

    wire [13:0] bit_address = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7,
                               ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [9:0] word_address = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4};
    wire [15:0] word = {DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
                        DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
    wire writing = CEB & WEB & ADB0 & ADB1;

    always @(posedge CLKA) begin
        if (OCEA) register <= read;
        if (CEA) begin
            read <= words[bit_address[13:4]][bit_address[3:0]]
                    ^ (writing & word_address == bit_address[13:4]);
            if (WEA) words[bit_address[13:4]][bit_address[3:0]] <= DIA0;
        end
        if (writing) words[word_address] <= word;
    end

    assign DOA0 = register;
endmodule
