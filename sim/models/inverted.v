// Ahead of the models: garbage is the inverse of what was there.
`define LATELY_INVERTED
