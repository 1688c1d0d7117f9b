// Included before the models: undefined bits are the inverse of the content.
`define LATELY_INVERTED
