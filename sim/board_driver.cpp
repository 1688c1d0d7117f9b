// Clocks a verilated board top and communicates over its serial line, bit by bit. It is compiled
// together with the model. generated.h defines CLOCKS_PER_BIT of the line.

#include "generated.h"

#include <cstdint>

#include "Vmodel.h"
#include "verilated.h"

namespace {

struct Board {
    VerilatedContext context;
    Vmodel model{&context};
    uint64_t cycles = 0;
    // Bits of the byte in transfer, with the start bit at the bottom and stop bits at the top.
    uint32_t sent = 0, received = 0;
    int to_send = 0, to_receive = 0;
    double send_in = 0, receive_in = 0;
};

void clock(Board& board) {
    board.model.clk = 0;
    board.model.eval();
    board.model.clk = 1;
    board.model.eval();
    ++board.cycles;
}

}  // namespace

extern "C" {

Board* board_new() {
    Board* board = new Board;
    board->model.rx = 1;
    board->model.rst = 1;
    clock(*board);
    board->model.rst = 0;
    return board;
}

void board_delete(Board* board) { delete board; }

uint64_t board_cycles(const Board* board) { return board->cycles; }

int board_leds(const Board* board) {
    const auto& model = board->model;
    return model.alive | model.hit << 1 | model.fault << 2;
}

// Whether a byte is being transferred, or the board is busy.
int board_busy(const Board* board) {
    return board->to_send || board->to_receive || board->model.busy;
}

// Runs `cycles` clocks. Sends bytes as fast as the line allows and stores their number in `taken`;
// returns the number of bytes received. `output` must have room for one byte per 8 clocks.
uint64_t board_run(Board* board, uint64_t cycles, const uint8_t* input, uint64_t count,
                   uint64_t* taken, uint8_t* output) {
    Vmodel& model = board->model;
    uint64_t put = 0, got = 0;
    while (cycles--) {
        if (board->to_send == 0) {
            if (put < count) {
                board->sent = (uint32_t{input[put++]} | 0x100) << 1;
                board->to_send = 10;
                board->send_in = CLOCKS_PER_BIT;
                model.rx = 0;
            }
        } else if ((board->send_in -= 1) < 0.5) {
            board->send_in += CLOCKS_PER_BIT;
            board->sent >>= 1;
            model.rx = --board->to_send ? board->sent & 1 : 1;
        }
        clock(*board);
        if (board->to_receive == 0) {
            if (!model.tx) {
                board->to_receive = 10;
                board->received = 0;
                board->receive_in = CLOCKS_PER_BIT / 2;
            }
        } else if ((board->receive_in -= 1) < 0.5) {
            board->receive_in += CLOCKS_PER_BIT;
            board->received = board->received >> 1 | uint32_t{model.tx} << 9;
            // The stop bit arrives last; a byte without it is dropped.
            if (--board->to_receive == 0 && board->received & 0x200)
                output[got++] = static_cast<uint8_t>(board->received >> 1);
        }
    }
    *taken = put;
    return got;
}
}
