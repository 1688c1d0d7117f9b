// Drives a verilated unit, with one or several lanes, from arrays. It is compiled together with the
// model. generated.h defines the positions of payload fields (see UnitSignature.macros), the
// memories, and what else the unit has.

#include "generated.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "Vmodel.h"
#include "Vmodel___024root.h"
#include "verilated.h"

namespace {

constexpr int BEAT_WORDS = (I_BITS + 31) / 32;
constexpr int KEY_WORDS = (I_KEY_BITS + 63) / 64;
constexpr uint32_t TAG_MASK = (uint32_t{1} << I_TAG_BITS) - 1;
// Flag in an operation code: the lane has an operation.
constexpr uint8_t VALID = 0x80;

constexpr uint64_t NEVER = ~uint64_t{0};

// State of the driver between clocks, apart from the model.
struct Progress {
    uint64_t cycles = 0;
    uint64_t random = 1;
    // In the current sequence: number of accepted and of answered beats; whether a beat is offered.
    uint64_t sent = 0, received = 0;
    bool offered = false;
    // Number of answers since reset that belong to no beat.
    uint64_t surplus = 0;
    // A load of a secret or of table entries, offered once `load_at` beats were sent: whether it
    // was accepted, clocks until it applies, and the first beat to which it applies, once known.
    uint64_t load_at = NEVER, load_lead = 0, load_from = NEVER;
    bool accepted = false;
    uint64_t secret[2] = {};
    const uint64_t* entries = nullptr;
    uint64_t entries_left = 0;
    // Clocks between ticks (0: none), clocks until the next tick, and number of ticks so far.
    uint64_t period = 0, left = 0, ticks = 0;
};

struct Unit : Progress {
    VerilatedContext context;
    Vmodel model{&context};
};

// Output arrays: the answer of each lane, in the order of the operations.
struct Results {
    uint8_t* seen;
    int32_t* age;
    uint8_t* status;
    uint16_t* oldest;
    uint32_t* time;
};

// Drives the tick for the next clock, or the tick period, if the unit has such a port.
template <typename Model>
void make_tick([[maybe_unused]] Unit& unit, Model& model) {
    if constexpr (requires { model.period; }) model.period = unit.period;
    if constexpr (requires { model.tick; }) {
        model.tick = unit.period && --unit.left == 0;
        if (!model.tick) return;
        unit.left = unit.period;
        ++unit.ticks;
    }
}

// First half of a clock: the unit shows what it will do at the next edge.
void before_edge(Unit& unit) {
    make_tick(unit, unit.model);
    unit.model.clk = 0;
    unit.model.eval();
}

void edge(Unit& unit) {
    unit.model.clk = 1;
    unit.model.eval();
    ++unit.cycles;
}

// Counts an answer that leaves at the next edge, although nobody waits for it.
void drop(Unit& unit) {
    if (!unit.model.o___05Fvalid || !unit.model.o___05Fready) return;
    ++(unit.received < unit.sent ? unit.received : unit.surplus);
}

void clock(Unit& unit) {
    before_edge(unit);
    drop(unit);
    edge(unit);
}

// Whether to pause now, with a probability of `chance` / 256.
bool pauses(Unit& unit, uint32_t chance) {
    if (!chance) return false;
    unit.random ^= unit.random << 13;
    unit.random ^= unit.random >> 7;
    unit.random ^= unit.random << 17;
    return (unit.random >> 20 & 255) < chance;
}

// Offers the secret or the table entries while beats are sent, and finally the swap.
template <typename Model>
void offer_load(Unit& unit, Model& model, bool due) {
    if constexpr (requires { model.secret___05Fvalid; }) {
        model.secret___05Fvalid = due;
        for (int word = 0; word < 4; ++word)
            model.secret___05Fpayload[word] =
                static_cast<uint32_t>(unit.secret[word / 2] >> 32 * (word % 2));
    }
    if constexpr (requires { model.table___05Fvalid; }) {
        model.table___05Fvalid = due && unit.entries_left;
        model.swap = due && !unit.entries_left;
        if (due && unit.entries_left) model.table___05Fpayload = *unit.entries;
    }
}

// Before an edge, records what the unit accepts at it, and the first beat to which a load applies.
template <typename Model>
void note_load(Unit& unit, Model& model) {
    bool taken = false;
    if constexpr (requires { model.secret___05Fvalid; })
        taken = model.secret___05Fvalid && model.secret___05Fready;
    if constexpr (requires { model.table___05Fvalid; }) {
        taken = model.swap;
        if (model.table___05Fvalid && model.table___05Fready) {
            ++unit.entries;
            --unit.entries_left;
        }
    }
    if (taken) {
        unit.load_at = NEVER;
        unit.accepted = true;
    }
    if (unit.accepted && unit.load_lead-- == 0) {
        unit.accepted = false;
        unit.load_from = unit.sent;
    }
}

void put(uint32_t* words, int position, uint64_t value, int bits) {
    for (int done = 0; done < bits;) {
        const int offset = (position + done) % 32;
        const int count = std::min(bits - done, 32 - offset);
        const uint64_t part = (value >> done) & ((uint64_t{1} << count) - 1);
        words[(position + done) / 32] |= static_cast<uint32_t>(part << offset);
        done += count;
    }
}

// A 32-bit word of a value, which Verilator represents as an integer or as an array of such words.
template <typename Value>
uint32_t word_of(const Value& value, int index) {
    if constexpr (requires { value[0]; }) {
        return value[index];
    } else {
        return static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32 * index);
    }
}

template <typename Port>
uint32_t get(const Port& port, int position, int bits) {
    uint64_t value = word_of(port, position / 32);
    if (position % 32 + bits > 32) value |= uint64_t{word_of(port, position / 32 + 1)} << 32;
    return static_cast<uint32_t>(value >> position % 32 & ((uint64_t{1} << bits) - 1));
}

template <typename Port>
void drive(Port& port, const uint32_t* words) {
    if constexpr (requires { port[0]; }) {
        for (int word = 0; word < BEAT_WORDS; ++word) port[word] = words[word];
    } else {
        port = static_cast<Port>(words[0] | uint64_t{words[1]} << 32);
    }
}

// Sets the generation length, if the unit has such a port.
template <typename Model>
void set_generation(Model& model, uint64_t generation) {
    if constexpr (requires { model.generation; }) model.generation = generation;
}

// Offers a beat: the operation before the lanes, if there are several; and for each lane its code
// (with VALID if there is an operation), key and tag, and its time, window or query class.
void offer(Vmodel& model, uint8_t alone, const uint8_t* codes, const uint64_t* keys,
           [[maybe_unused]] const uint64_t* times, uint64_t tag) {
    uint32_t beat[BEAT_WORDS + 1] = {};
#ifdef I_ALONE_AT
    put(beat, I_ALONE_AT, alone, I_ALONE_BITS);
#endif
    for (int lane = 0; lane < LANES; ++lane) {
        const int at = I_LANE_AT + lane * I_LANE_BITS;
#ifdef I_VALID_AT
        put(beat, at + I_VALID_AT, codes[lane] / VALID, 1);
#endif
        put(beat, at + I_OPERATION_AT, codes[lane] & ~VALID, I_OPERATION_BITS);
        for (int word = 0; word < KEY_WORDS; ++word) {
            put(beat, at + I_KEY_AT + 64 * word, keys[lane * KEY_WORDS + word],
                std::min(I_KEY_BITS - 64 * word, 64));
        }
#ifdef I_TIME_AT
        put(beat, at + I_TIME_AT, times[lane], I_TIME_BITS);
#elif defined(I_WINDOW_AT)
        put(beat, at + I_WINDOW_AT, times[lane], I_WINDOW_BITS);
#elif defined(I_QUERY_CLASS_AT)
        put(beat, at + I_QUERY_CLASS_AT, times[lane], I_QUERY_CLASS_BITS);
#endif
        put(beat, at + I_TAG_AT, (tag + lane) & TAG_MASK, I_TAG_BITS);
    }
    drive(model.i___05Fpayload, beat);
}

uint32_t lane_field(const Vmodel& model, int lane, int position, int bits) {
    return get(model.o___05Fpayload, O_LANE_AT + lane * O_LANE_BITS + position, bits);
}

// Copies the fields of a lane's result unchanged.
void copy_result(const Vmodel& model, int lane, uint64_t at, const Results& results) {
    const auto field = [&](int position, int bits) {
        return lane_field(model, lane, position, bits);
    };
    results.seen[at] = field(O_SEEN_AT, 1);
#ifdef O_AGE_AT
    results.age[at] = field(O_AGE_AT, O_AGE_BITS);
#else
    results.age[at] = 0;
#endif
#ifdef O_OLDEST_AT
    results.oldest[at] = field(O_OLDEST_AT, O_OLDEST_BITS);
#endif
#ifdef O_STATUS_AT
    results.status[at] = field(O_STATUS_AT, O_STATUS_BITS);
#endif
#ifdef O_TIME_AT
    results.time[at] = field(O_TIME_AT, O_TIME_BITS);
#endif
}

// Copies the results of the beat whose first lane is operation number `first`. Returns whether
// lanes and tags are those of the beat.
bool take(const Vmodel& model, const uint8_t* codes, uint64_t first, const Results& results) {
    for (int lane = 0; lane < LANES; ++lane) {
        const uint64_t at = first + lane;
        const bool valid = codes[at] / VALID;
#ifdef O_VALID_AT
        if (valid != lane_field(model, lane, O_VALID_AT, 1)) return false;
#endif
        copy_result(model, lane, at, results);
#ifndef O_OLDEST_AT
        // Only units with `oldest` report an age for keys that were not seen.
        if (!results.seen[at]) results.age[at] = -1;
#endif
        if (valid && lane_field(model, lane, O_TAG_AT, O_TAG_BITS) != (at & TAG_MASK)) return false;
    }
    return true;
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
    unit->ticks = 0;
    unit->sent = unit->received = unit->surplus = 0;
}

uint64_t lately_cycles(const Unit* unit) { return unit->cycles; }

// Returns the number of answers since reset that belong to no beat.
uint64_t lately_surplus(const Unit* unit) { return unit->surplus; }

void lately_idle(Unit* unit, uint64_t cycles) {
    while (cycles--) clock(*unit);
}

// From now on, ticks every `period` clocks, or never if it is 0. A unit that generates its ticks
// continues.
void lately_period(Unit* unit, uint64_t period) { unit->period = unit->left = period; }

// Returns the number of ticks since reset.
uint64_t lately_ticks(const Unit* unit) { return unit->ticks; }

void lately_generation(Unit* unit, uint64_t generation) {
    set_generation(unit->model, generation);
}

#ifdef KEYED
// Offers a secret for one clock; returns whether the unit accepted it.
int lately_secret(Unit* unit, uint64_t low, uint64_t high) {
    Vmodel& model = unit->model;
    for (int word = 0; word < 2; ++word) {
        model.secret___05Fpayload[word] = static_cast<uint32_t>(low >> 32 * word);
        model.secret___05Fpayload[2 + word] = static_cast<uint32_t>(high >> 32 * word);
    }
    model.secret___05Fvalid = 1;
    before_edge(*unit);
    const int taken = model.secret___05Fready;
    drop(*unit);
    edge(*unit);
    model.secret___05Fvalid = 0;
    return taken;
}
#endif

#ifdef DECIDING
// Loads the entries of a table as fast as the unit accepts them, then swaps the tables. Returns 0;
// or, after giving up, the number of clocks in which no entry was accepted.
int64_t lately_table(Unit* unit, uint64_t count, const uint64_t* entries) {
    constexpr int64_t PATIENCE = 1 << 16;
    Vmodel& model = unit->model;
    int64_t idle = 0;
    for (uint64_t at = 0; at < count;) {
        model.table___05Fpayload = entries[at];
        model.table___05Fvalid = 1;
        before_edge(*unit);
        const bool taken = model.table___05Fready;
        drop(*unit);
        edge(*unit);
        if (!taken && ++idle > PATIENCE) return idle;
        if (taken) idle = 0;
        at += taken;
    }
    model.table___05Fvalid = 0;
    model.swap = 1;
    clock(*unit);
    model.swap = 0;
    return 0;
}
#endif

// Copies the counters, in the order of COUNTERS.
void lately_statistics(Unit* unit, uint64_t* counts) {
#define COUNTER(number, name) counts[number] = unit->model.name;
    COUNTERS
#undef COUNTER
}

// Begins a sequence of beats. The previous one must be completely answered, or be followed by a
// reset.
void lately_begin(Unit* unit, uint64_t seed) {
    unit->random = seed | 1;
    unit->sent = unit->received = 0;
    unit->offered = false;
}

// Sends the `count` beats of a sequence, one per clock as the unit accepts them, and collects their
// answers. It continues where the previous call stopped, and stops when `enough` beats are
// answered; others may still be in flight. It pauses at random, with probabilities in 1/256, before
// beats and before accepting answers. Returns 0; or `patience` if there was no answer for so many
// clocks; or -1 if an answer does not have the lanes or tags of its beat, or has no beat.
int64_t lately_run(Unit* unit, uint64_t count, uint64_t enough, const uint8_t* alone,
                   const uint8_t* codes, const uint64_t* keys, const uint64_t* times,
                   const Results* results, uint32_t pause_before, uint32_t pause_after,
                   uint64_t patience) {
    Vmodel& model = unit->model;
    uint64_t &sent = unit->sent, &received = unit->received;
    bool& offered = unit->offered;
    uint64_t idle = 0;
    while (received < enough) {
        if (!offered && sent < count && !pauses(*unit, pause_before)) {
            const uint64_t first = sent * LANES;
            offer(model, alone[sent], codes + first, keys + first * KEY_WORDS, times + first,
                  first);
            offered = true;
        }
        model.i___05Fvalid = offered;
        model.o___05Fready = !pauses(*unit, pause_after);
        offer_load(*unit, model, sent >= unit->load_at);
        before_edge(*unit);
        note_load(*unit, model);
        if (model.o___05Fvalid && model.o___05Fready) {
            if (received == sent || !take(model, codes, received * LANES, *results)) return -1;
            ++received;
            idle = 0;
        } else if (++idle == patience) {
            return patience;
        }
        if (offered && model.i___05Fready) {
            ++sent;
            offered = false;
        }
        edge(*unit);
    }
    model.i___05Fvalid = 0;
    model.o___05Fready = 1;
    offer_load(*unit, model, false);
    return 0;
}

// Loads a secret or `count` table entries while the next sequence is sent, after its first `at`
// beats. It applies to beats that are accepted at least `lead` clocks after it.
void lately_load(Unit* unit, uint64_t at, uint64_t lead, uint64_t low, uint64_t high,
                 uint64_t count, const uint64_t* entries) {
    unit->load_at = at;
    unit->load_lead = lead;
    unit->load_from = NEVER;
    unit->accepted = false;
    unit->secret[0] = low;
    unit->secret[1] = high;
    unit->entries = entries;
    unit->entries_left = count;
}

// Ends a load. Returns the first beat to which it applies, or the maximum if it was not accepted.
uint64_t lately_loaded(Unit* unit) {
    unit->load_at = NEVER;
    unit->accepted = false;
    return unit->load_from;
}

// Copies the words of memory number `index`, in the order of MEMORIES. Each uses as many 64-bit
// words as it needs.
void lately_memory(Unit* unit, uint64_t index, uint64_t words, uint64_t width, uint64_t* values) {
    const auto copy = [&](const auto& memory) {
        for (uint64_t word = 0; word < words; ++word)
            for (uint64_t at = 0; at < width; at += 64) {
                const auto& value = memory[word];
                *values = word_of(value, at / 32);
                if (width - at > 32) *values |= uint64_t{word_of(value, at / 32 + 1)} << 32;
                ++values;
            }
    };
    const auto& root = *unit->model.rootp;
    switch (index) {
#define MEMORY(number, name) \
    case number:             \
        copy(root.name);     \
        break;
        MEMORIES
#undef MEMORY
    }
}
}

#ifdef ELEMENTS
#include "upsets.hpp"

namespace {

// Stores the results of a beat without checking them.
void keep(const Vmodel& model, uint64_t slot, const Results& results, uint8_t* tags) {
    for (int lane = 0; lane < LANES; ++lane) {
        const uint64_t at = slot * LANES + lane;
#ifdef O_VALID_AT
        if (!lane_field(model, lane, O_VALID_AT, 1)) continue;
#endif
        copy_result(model, lane, at, results);
        ++results.seen[at];
        tags[at] = lane_field(model, lane, O_TAG_AT, O_TAG_BITS);
    }
}

}  // namespace

extern "C" {

// Continues a sequence like lately_run, for at most `clocks` clocks, until `enough` beats are
// answered, or until none is answered for `patience` clocks. Stores unchecked results, and a digest
// of the state after each clock, if these arrays are given. Returns the number of answered beats.
uint64_t lately_follow(Unit* unit, uint64_t count, uint64_t enough, uint64_t clocks,
                       uint64_t patience, const uint8_t* alone, const uint8_t* codes,
                       const uint64_t* keys, const uint64_t* times, const Results* results,
                       uint8_t* tags, uint64_t* states) {
    Vmodel& model = unit->model;
    uint64_t &sent = unit->sent, &received = unit->received;
    bool& offered = unit->offered;
    uint64_t kept = 0;
    for (uint64_t idle = 0; received < enough && clocks && idle < patience; --clocks) {
        if (!offered && sent < count) {
            const uint64_t first = sent * LANES;
            offer(model, alone[sent], codes + first, keys + first * KEY_WORDS, times + first,
                  first);
            offered = true;
        }
        model.i___05Fvalid = offered;
        model.o___05Fready = 1;
        before_edge(*unit);
        ++idle;
        if (model.o___05Fvalid) {
            if (results) keep(model, kept++, *results, tags);
            ++received;
            idle = 0;
        }
        if (offered && model.i___05Fready) {
            ++sent;
            offered = false;
        }
        edge(*unit);
        if (states) *states++ = state_of(*model.rootp);
    }
    return received;
}
}
#endif
