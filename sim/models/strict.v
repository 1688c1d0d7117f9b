// Included before the models: a word is undefined while another port writes a bit of it.
`define LATELY_STRICT
