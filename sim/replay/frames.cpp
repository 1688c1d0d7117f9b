// Drives a verilated frame deduplicator from arrays, and accepts its output in every cycle. It is
// compiled together with the model. generated.h defines the stream widths.

#include "generated.h"

#include <cstdint>
#include <cstring>

#include "Vmodel.h"
#include "Vmodel___024root.h"
#include "verilated.h"

namespace {

// State of the driver between cycles, apart from the model.
struct Progress {
    uint64_t cycles = 0;
    // Number of slots so far, and digest of the part of a frame that has left.
    uint64_t sent = 0, part = 0;
};

struct Unit : Progress {
    VerilatedContext context;
    Vmodel model{&context};
};

// A transfer in the format of the model: data, keep, last, user.
struct Transfer {
    uint8_t bytes[BYTES + BYTES / 8 + 16] = {};

    void set(int position, int value) { bytes[position / 8] |= value << position % 8; }
    int get(int position) const { return bytes[position / 8] >> position % 8 & 1; }
};

constexpr int KEEP = 8 * BYTES, LAST = KEEP + BYTES, USER = LAST + 1;

void cycle(Unit& unit) {
    unit.model.clk = 1;
    unit.model.eval();
    unit.model.clk = 0;
    unit.model.eval();
    ++unit.cycles;
}

}  // namespace

#include "upsets.hpp"

extern "C" {

Unit* lately_new() { return new Unit; }

void lately_delete(Unit* unit) { delete unit; }

uint64_t lately_cycles(const Unit* unit) { return unit->cycles; }

// Resets the deduplicator, sets its action and fields, and runs some cycles.
void lately_reset(Unit* unit, uint64_t action, uint64_t fields, uint64_t cycles) {
    Vmodel& model = unit->model;
    static_cast<Progress&>(*unit) = {};
    model.i___05Fvalid = model.clear = model.tick = model.digest_secret___05Fvalid = 0;
    model.o___05Fready = model.enable = 1;
    model.action = action;
    model.fields = fields;
    model.rst = 1;
    cycle(*unit);
    model.rst = 0;
    while (cycles--) cycle(*unit);
    unit->cycles = 0;
}

// Continues a sequence of `count` slots until `cycles` cycles have passed since the reset. A slot
// without bytes is a gap of one cycle; other slots wait until the deduplicator accepts them. Flags:
// 1 for the last transfer of a frame, 2 for a tick. Stores digest, mark and cycle of each frame
// that leaves, at most one per cycle, and if `states` is given, a digest of the state after each
// cycle. Returns the number of frames that left.
uint64_t lately_follow(Unit* unit, uint64_t count, uint64_t cycles, const uint8_t* octets,
                       const uint8_t* sizes, const uint8_t* flags, uint64_t* frames,
                       uint64_t* states) {
    Vmodel& model = unit->model;
    uint64_t left = 0;
    while (unit->cycles < cycles) {
        const uint64_t at = unit->sent;
        const int size = at < count ? sizes[at] : 0;
        Transfer in, out;
        std::memcpy(in.bytes, octets + at * BYTES, size);
        for (int byte = 0; byte < size; ++byte) in.set(KEEP + byte, 1);
        if (size) in.set(LAST, flags[at] & 1);
        std::memcpy(&model.i___05Fpayload, in.bytes, sizeof(model.i___05Fpayload));
        model.i___05Fvalid = size > 0;
        model.tick = at < count && flags[at] & 2;
        model.eval();
        unit->sent += !size || model.i___05Fready;
        if (model.o___05Fvalid) {
            std::memcpy(out.bytes, &model.o___05Fpayload, sizeof(model.o___05Fpayload));
            for (int byte = 0; byte < BYTES; ++byte)
                if (out.get(KEEP + byte)) unit->part = (unit->part ^ (out.bytes[byte] + 1)) * DIGEST_FACTOR;
            if (out.get(LAST)) {
                const uint64_t frame[] = {unit->part, uint64_t(out.get(USER)), unit->cycles};
                std::memcpy(frames + 3 * left++, frame, sizeof frame);
                unit->part = 0;
            }
        }
        cycle(*unit);
        if (states) *states++ = lately_state(unit);
    }
    return left;
}
}
