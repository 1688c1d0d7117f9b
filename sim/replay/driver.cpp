// Drives a verilated filter unit from arrays. Compiled together with the model; the macros of
// UnitSignature, COUNTERS and MEMORIES describe the unit.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "Vmodel.h"
#include "Vmodel___024root.h"
#include "verilated.h"

namespace {

constexpr int REQUEST_WORDS = (I_BITS + 31) / 32;
constexpr uint32_t TAG_MASK = (uint32_t{1} << I_TAG_BITS) - 1;

struct Unit {
    VerilatedContext context;
    Vmodel model{&context};
    uint64_t cycles = 0;
    // Of the present sequence: operations that were accepted, and those whose results have come.
    uint64_t sent = 0, received = 0;
};

void clock(Unit& unit) {
    unit.model.clk = 0;
    unit.model.eval();
    unit.model.clk = 1;
    unit.model.eval();
    ++unit.cycles;
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
void drive(Port& port, const uint32_t* words) {
    if constexpr (std::is_integral_v<Port>) {
        uint64_t value = words[0];
        if constexpr (REQUEST_WORDS > 1) value |= uint64_t{words[1]} << 32;
        port = static_cast<Port>(value);
    } else {
        for (int word = 0; word < REQUEST_WORDS; ++word) port[word] = words[word];
    }
}

}  // namespace

extern "C" {

Unit* lately_new() { return new Unit; }

void lately_delete(Unit* unit) { delete unit; }

void lately_reset(Unit* unit, uint64_t generation) {
    unit->model.generation = generation;
    unit->model.i___05Fvalid = 0;
    unit->model.o___05Fready = 1;
    unit->model.rst = 1;
    clock(*unit);
    unit->model.rst = 0;
}

void lately_generation(Unit* unit, uint64_t generation) { unit->model.generation = generation; }

#ifdef KEYED
// Offers a secret for one clock; returns whether the unit took it.
int lately_secret(Unit* unit, uint64_t low, uint64_t high) {
    Vmodel& model = unit->model;
    for (int word = 0; word < 2; ++word) {
        model.secret___05Fpayload[word] = static_cast<uint32_t>(low >> 32 * word);
        model.secret___05Fpayload[2 + word] = static_cast<uint32_t>(high >> 32 * word);
    }
    model.secret___05Fvalid = 1;
    model.clk = 0;
    model.eval();
    const int taken = model.secret___05Fready;
    clock(*unit);
    model.secret___05Fvalid = 0;
    return taken;
}
#endif

uint64_t lately_cycles(const Unit* unit) { return unit->cycles; }

void lately_idle(Unit* unit, uint64_t cycles) {
    while (cycles--) clock(*unit);
}

// Copies the counters, in the order of COUNTERS.
void lately_statistics(Unit* unit, uint64_t* counts) {
#define COUNTER(number, name) counts[number] = unit->model.name;
    COUNTERS
#undef COUNTER
}

// Begins a sequence of operations; the one before must have had all its results, or a reset.
void lately_begin(Unit* unit) { unit->sent = unit->received = 0; }

// Performs the `count` operations of a sequence, one per clock as the unit accepts them, on from
// where it stood, until `enough` results have come; what is under way then stays so. Returns 0,
// or the number of clocks without a result after which it gave up, or -1 if a result came with
// another tag than its operation's.
int64_t lately_run(Unit* unit, uint64_t count, uint64_t enough, const uint8_t* operations,
                   const uint64_t* keys, uint8_t* seen, int16_t* age) {
    constexpr int KEY_WORDS = (I_KEY_BITS + 63) / 64;
    constexpr int64_t PATIENCE = 1 << 24;
    Vmodel& model = unit->model;
    uint64_t &sent = unit->sent, &received = unit->received;
    int64_t idle = 0;
    uint32_t request[REQUEST_WORDS] = {};
    bool ready = true;
    while (received < enough) {
        if (ready && sent < count) {
            std::memset(request, 0, sizeof request);
            for (int word = 0; word < KEY_WORDS; ++word) {
                const int bits = I_KEY_BITS - 64 * word < 64 ? I_KEY_BITS - 64 * word : 64;
                put(request, I_KEY_AT + 64 * word, keys[sent * KEY_WORDS + word], bits);
            }
            put(request, I_OPERATION_AT, operations[sent], I_OPERATION_BITS);
            put(request, I_TAG_AT, sent & TAG_MASK, I_TAG_BITS);
            drive(model.i___05Fpayload, request);
        }
        model.i___05Fvalid = sent < count;
        // What the unit shows now is what it accepts and delivers at the coming edge.
        model.clk = 0;
        model.eval();
        ready = model.i___05Fready;
        if (model.o___05Fvalid) {
            const uint32_t result = model.o___05Fpayload;
            seen[received] = result >> O_SEEN_AT & 1;
            age[received] = seen[received] ? result >> O_AGE_AT & ((1 << O_AGE_BITS) - 1) : -1;
            if ((result >> O_TAG_AT & TAG_MASK) != (received & TAG_MASK)) return -1;
            ++received;
            idle = 0;
        } else if (++idle > PATIENCE) {
            return idle;
        }
        if (model.i___05Fvalid && ready) ++sent;
        model.clk = 1;
        model.eval();
        ++unit->cycles;
    }
    model.i___05Fvalid = 0;
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
