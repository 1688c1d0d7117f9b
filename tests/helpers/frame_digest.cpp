// Sends frames to a compiled digest of frames and takes its results, with pauses on both sides.
#include <cstdint>
#include <random>

#include "Vmodel.h"
#include "generated.h"

struct Model {
    VerilatedContext context;
    Vmodel top{&context};
};

static void tick(Vmodel &top) {
    top.clk = 1;
    top.eval();
    top.clk = 0;
    top.eval();
}

extern "C" {

Model *digest_new() {
    auto *model = new Model;
    model->top.rst = 1;
    tick(model->top);
    model->top.rst = 0;
    return model;
}

void digest_delete(Model *model) { delete model; }

// Returns the cycles that it took, or -1 after too many of them. `results` gets three words for each
// frame: its digest, the other members, and the cycle. Pauses are probabilities in 256ths.
int64_t digest_run(Model *model, const uint8_t *octets, const int64_t *sizes, const uint8_t *errors,
                   int64_t count, int fields, const uint32_t *secret, const int *pauses,
                   uint64_t *results) {
    Vmodel &top = model->top;
    std::mt19937 random(1);
    auto pauses_now = [&](int side) { return int(random() >> 24) < pauses[side]; };
    int64_t frame = 0, at = 0, taken = 0, cycle = 0, limit = 1 << 24;
    bool offered = false;
    top.fields = fields;
    for (int word = 0; word < 4; word++) {
        top.secret[word] = secret[word];
    }
    for (; taken < count; cycle++) {
        if (cycle == limit) {
            return -1;
        }
        if (!offered && frame < count && !pauses_now(0)) {
            int64_t left = sizes[frame] - at, size = left < BYTES ? left : BYTES;
            for (int byte = 0; byte < BYTES; byte++) {
                uint32_t value = byte < size ? octets[at + byte] : random() & 255, shift = 8 * (byte % 4);
                uint32_t &word = top.i___05Fpayload[byte / 4];
                word = (word & ~(255u << shift)) | value << shift;
            }
            uint32_t last = size == left;
            top.i___05Fpayload[BYTES / 4] =
                (size - 1) | last << PLACE_BITS | (last & errors[frame]) << (PLACE_BITS + 1);
            offered = true;
        }
        top.i___05Fvalid = offered;
        top.o___05Fready = !pauses_now(1);
        top.eval();
        if (top.o___05Fvalid && top.o___05Fready) {
            results[3 * taken] = top.o___05Fpayload[0] | uint64_t(top.o___05Fpayload[1]) << 32;
            results[3 * taken + 1] = top.o___05Fpayload[2];
            results[3 * taken++ + 2] = cycle;
        }
        bool accepted = offered && top.i___05Fready;
        tick(top);
        if (accepted) {
            offered = false;
            at += BYTES;
            if (at >= sizes[frame]) {
                octets += sizes[frame++];
                at = 0;
            }
        }
    }
    top.i___05Fvalid = top.o___05Fready = 0;
    return cycle;
}
}
