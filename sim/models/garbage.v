// What the models of block RAMs share, ahead of them: their answers where a vendor defines nothing.
// These are bits at random; with LATELY_INVERTED the inverse of what was there; in proofs (FORMAL)
// any bits. With LATELY_STRICT a whole word is garbage if the other port writes one of its bits.

`ifndef LATELY_SEED
`define LATELY_SEED 1
`endif

// Words of a block, of which proofs have few.
`ifdef LATELY_WORDS
`define LATELY_DEPTH(words) `LATELY_WORDS
`else
`define LATELY_DEPTH(words) words
`endif

// What a block holds at first. A reset does not clear it: with LATELY_FILLED, bits at random.
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

// Which bits of a word are garbage where the other port writes the bits `meeting`.
`ifdef LATELY_STRICT
`define LATELY_UNKNOWN(width, word, meeting) {width{|(word & meeting)}}
`else
`define LATELY_UNKNOWN(width, word, meeting) meeting
`endif

// Bits at random, which differ between blocks through what they are asked.
module lately_noise (input clk, input [31:0] asked, output [31:0] noise);
    reg [31:0] state;
    initial state = `LATELY_SEED;
    always @(posedge clk) state <= (state ^ asked) * 32'd1664525 + 32'd1013904223;
    assign noise = state;
endmodule
