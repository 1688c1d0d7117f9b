// Behaviour of the ECP5 block RAM in two modes, both with output register on port A.
// ECP5SegmentMemory: port A one bit wide, read before write; port B words of 16 bits (of 18),
// write only. ECP5WordBank: port A reads and port B writes words of 18 bits.
// What port A reads while port B writes its word comes out inverted: nobody may rely on it.

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

    localparam WORDS = DATA_WIDTH_A == 18;

    // Of 16 bits where port A has single bits.
    reg [17:0] words [0:1023];
    reg [17:0] read, register;
    integer index;

    initial begin
        if (DATA_WIDTH_B != 18 || REGMODE_A != "OUTREG"
                || !(WORDS || DATA_WIDTH_A == 1 && WRITEMODE_A == "READBEFOREWRITE")) begin
            $display("DP16KD: this mode is not modelled");
            $finish;
        end
        for (index = 0; index < 1024; index = index + 1) words[index] = 18'h00000;
    end

    wire [13:0] bit_address = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7,
                               ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [9:0] word_address = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4};
    wire [17:0] wide = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
                        DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
    wire [17:0] word = WORDS ? wide : {2'b00, wide[16:9], wide[7:0]};
    wire writing = CEB & WEB & ADB0 & ADB1;
    wire colliding = writing & word_address == bit_address[13:4];

    always @(posedge CLKA) begin
        if (OCEA) register <= read;
        if (CEA) begin
            if (WORDS) read <= words[bit_address[13:4]] ^ {18{colliding}};
            else begin
                read <= words[bit_address[13:4]][bit_address[3:0]] ^ colliding;
                if (WEA) words[bit_address[13:4]][bit_address[3:0]] <= DIA0;
            end
        end
        if (writing) words[word_address] <= word;
    end

    assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9,
            DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = register;
endmodule
