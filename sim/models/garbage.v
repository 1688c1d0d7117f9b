// Common part of the block RAM models, included before them: what reads return where the vendor
// leaves it undefined. By default this is random; with LATELY_INVERTED, the inverse of the content;
// in proofs (FORMAL), arbitrary. With LATELY_STRICT a whole word is undefined if the other port
// writes one of its bits.

`ifndef LATELY_SEED
`define LATELY_SEED 1
`endif

// Number of words in a block RAM; proofs reduce it.
`ifdef LATELY_WORDS
`define LATELY_DEPTH(words) `LATELY_WORDS
`else
`define LATELY_DEPTH(words) words
`endif

// Initial contents; a reset does not change them. With LATELY_FILLED they are random.
`ifdef LATELY_FILLED
`define LATELY_CONTENTS $random
`else
`define LATELY_CONTENTS 0
`endif

`ifdef FORMAL
`define LATELY_GARBAGE(held, noise) $anyseq
`elsif LATELY_INVERTED
`define LATELY_GARBAGE(held, noise) ~held
`else
`define LATELY_GARBAGE(held, noise) noise
`endif

// Bits of a word that are undefined while the other port writes the bits `meeting`.
`ifdef LATELY_STRICT
`define LATELY_UNKNOWN(width, word, meeting) {width{|(word & meeting)}}
`else
`define LATELY_UNKNOWN(width, word, meeting) meeting
`endif

// Random bits. They differ between block RAMs because they depend on the addresses.
module lately_noise (input clk, input [31:0] asked, output [31:0] noise);
    reg [31:0] state;
    initial state = `LATELY_SEED;
    always @(posedge clk) state <= (state ^ asked) * 32'd1664525 + 32'd1013904223;
    assign noise = state;
endmodule
