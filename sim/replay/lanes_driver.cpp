// Drives a verilated unit of several lanes from arrays. Compiled together with the model; the
// macros of UnitSignature and MEMORIES describe the unit.

#include <cstdint>
#include <cstring>

#include "Vmodel.h"
#include "Vmodel___024root.h"
#include "verilated.h"

namespace {

constexpr int BEAT_WORDS = (I_BITS + 31) / 32;
constexpr int KEY_WORDS = (I_KEY_BITS + 63) / 64;
constexpr uint32_t TAG_MASK = (uint32_t{1} << I_TAG_BITS) - 1;
// Set in the code of an operation: the lane has one.
constexpr uint8_t VALID = 0x80;

struct Unit {
    VerilatedContext context;
    Vmodel model{&context};
    uint64_t cycles = 0;
    uint64_t random = 1;
    // Of the present sequence: beats that were accepted and answered, whether the next is offered.
    uint64_t sent = 0, received = 0;
    bool offered = false;
};

void clock(Unit& unit) {
    unit.model.clk = 0;
    unit.model.eval();
    unit.model.clk = 1;
    unit.model.eval();
    ++unit.cycles;
}

// Whether a pause comes, of that many in 256.
bool pauses(Unit& unit, uint32_t chance) {
    unit.random ^= unit.random << 13;
    unit.random ^= unit.random >> 7;
    unit.random ^= unit.random << 17;
    return (unit.random >> 20 & 255) < chance;
}

void put(uint32_t* words, int position, uint64_t value, int bits) {
    for (int done = 0; done < bits;) {
        const int offset = (position + done) % 32;
        const int count = bits - done < 32 - offset ? bits - done : 32 - offset;
        const uint64_t part = (value >> done) & ((uint64_t{1} << count) - 1);
        words[(position + done) / 32] |= static_cast<uint32_t>(part << offset);
        done += count;
    }
}

template <typename Port>
uint32_t word_of(const Port& port, int index) {
    if constexpr (requires { port[0]; }) {
        return port[index];
    } else {
        return static_cast<uint32_t>(static_cast<uint64_t>(port) >> 32 * index);
    }
}

template <typename Port>
uint32_t get(const Port& port, int position, int bits) {
    uint32_t value = 0;
    for (int bit = 0; bit < bits; ++bit) {
        const int at = position + bit;
        value |= (word_of(port, at / 32) >> at % 32 & 1) << bit;
    }
    return value;
}

template <typename Port>
void drive(Port& port, const uint32_t* words) {
    if constexpr (requires { port[0]; }) {
        for (int word = 0; word < BEAT_WORDS; ++word) port[word] = words[word];
    } else {
        uint64_t value = words[0];
        if constexpr (BEAT_WORDS > 1) value |= uint64_t{words[1]} << 32;
        port = static_cast<Port>(value);
    }
}

}  // namespace

extern "C" {

Unit* lately_new() { return new Unit; }

void lately_delete(Unit* unit) { delete unit; }

void lately_reset(Unit* unit) {
    unit->model.i___05Fvalid = 0;
    unit->model.o___05Fready = 1;
    unit->model.rst = 1;
    clock(*unit);
    unit->model.rst = 0;
}

uint64_t lately_cycles(const Unit* unit) { return unit->cycles; }

void lately_idle(Unit* unit, uint64_t cycles) {
    while (cycles--) clock(*unit);
}

// Begins a sequence of beats; the one before must have had all its answers, or a reset.
void lately_begin(Unit* unit, uint64_t seed) {
    unit->random = seed | 1;
    unit->sent = unit->received = 0;
    unit->offered = false;
}

// Sends the `count` beats of a sequence and collects their answers, on from where it stood, until
// `enough` of them have come; what is under way then stays so. Per beat an operation before
// the others; per lane the code of its operation, with VALID if there is one, and the key. Pauses come by chance, of 256, before beats and
// before answers are taken. Returns 0, or the number of clocks without an answer after which it
// gave up, or -1 if an answer was of other lanes or tags than its beat.
int64_t lately_run(Unit* unit, uint64_t count, uint64_t enough, const uint8_t* alone,
                   const uint8_t* codes, const uint64_t* keys, uint8_t* seen, int16_t* age,
                   uint32_t pause_before, uint32_t pause_after) {
    constexpr int64_t PATIENCE = 1 << 20;
    Vmodel& model = unit->model;
    uint64_t &sent = unit->sent, &received = unit->received;
    bool& offered = unit->offered;
    int64_t idle = 0;
    uint32_t beat[BEAT_WORDS + 1] = {};
    while (received < enough) {
        if (!offered && sent < count && !pauses(*unit, pause_before)) {
            std::memset(beat, 0, sizeof beat);
            put(beat, I_ALONE_AT, alone[sent], I_ALONE_BITS);
            for (int lane = 0; lane < LANES; ++lane) {
                const uint64_t item = sent * LANES + lane;
                const int at = I_LANE_AT + lane * I_LANE_BITS;
                put(beat, at + I_VALID_AT, codes[item] / VALID, 1);
                put(beat, at + I_OPERATION_AT, codes[item] & ~VALID, I_OPERATION_BITS);
                for (int word = 0; word < KEY_WORDS; ++word) {
                    const int bits = I_KEY_BITS - 64 * word < 64 ? I_KEY_BITS - 64 * word : 64;
                    put(beat, at + I_KEY_AT + 64 * word, keys[item * KEY_WORDS + word], bits);
                }
                put(beat, at + I_TAG_AT, item & TAG_MASK, I_TAG_BITS);
            }
            drive(model.i___05Fpayload, beat);
            offered = true;
        }
        model.i___05Fvalid = offered;
        model.o___05Fready = !pauses(*unit, pause_after);
        // What the unit shows now is what it accepts and delivers at the coming edge.
        model.clk = 0;
        model.eval();
        if (model.o___05Fvalid && model.o___05Fready) {
            for (int lane = 0; lane < LANES; ++lane) {
                const uint64_t item = received * LANES + lane;
                const int at = O_LANE_AT + lane * O_LANE_BITS;
                const auto field = [&](int position, int bits) {
                    return get(model.o___05Fpayload, at + position, bits);
                };
                const bool valid = field(O_VALID_AT, 1);
                if (valid != (codes[item] / VALID)) return -1;
                seen[item] = field(O_SEEN_AT, 1);
                age[item] = seen[item] ? field(O_AGE_AT, O_AGE_BITS) : -1;
                const uint32_t tag = field(O_TAG_AT, O_TAG_BITS);
                if (valid && tag != (item & TAG_MASK)) return -1;
            }
            ++received;
            idle = 0;
        } else if (++idle > PATIENCE) {
            return idle;
        }
        if (offered && model.i___05Fready) {
            ++sent;
            offered = false;
        }
        model.clk = 1;
        model.eval();
        ++unit->cycles;
    }
    model.i___05Fvalid = 0;
    model.o___05Fready = 1;
    return 0;
}

// Copies the words of memory number `index`, in the order of MEMORIES.
void lately_memory(Unit* unit, uint64_t index, uint64_t words, uint64_t* values) {
    const auto& root = *unit->model.rootp;
    switch (index) {
#define MEMORY(number, name)                                                     \
    case number:                                                                 \
        for (uint64_t word = 0; word < words; ++word) values[word] = root.name[word]; \
        break;
        MEMORIES
#undef MEMORY
    }
}
}
