// Flips single bits of a verilated unit while it performs a sequence. Follows driver.cpp in one
// source; generated.h names the registers and memories in ELEMENTS and STATES.

#include <array>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

namespace {

using Root = Vmodel___024root;

// All that goes on from clock to clock: the members of the model are numbers and arrays of them,
// and pointers that stay.
struct Snapshot {
    std::vector<uint8_t> root;
    std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, bool, uint64_t, uint64_t, uint64_t, uint64_t>
        driver;
};

std::map<const Unit*, std::array<Snapshot, 3>> snapshots;

auto driver_state(Unit& unit) {
    return std::tie(unit.cycles, unit.random, unit.sent, unit.received, unit.offered, unit.surplus,
                    unit.period, unit.left, unit.ticks);
}

template <typename Value>
void flip(Value& value, uint64_t, uint64_t bit) {
    reinterpret_cast<uint8_t*>(&value)[bit / 8] ^= 1 << bit % 8;
}

template <typename Value, std::size_t words>
void flip(VlUnpacked<Value, words>& memory, uint64_t word, uint64_t bit) {
    flip(memory[word], 0, bit);
}

void digest(uint64_t& sum, const void* data, std::size_t size) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    for (std::size_t at = 0; at < size; at += 8) {
        uint64_t part = 0;
        std::memcpy(&part, bytes + at, std::min<std::size_t>(8, size - at));
        sum = (sum ^ part) * 0x9E3779B97F4A7C15;
        sum ^= sum >> 32;
    }
}

// A digest of all registers and memories but counters of events.
uint64_t state_of(const Root& root) {
    uint64_t sum = 0;
#define STATE(name) digest(sum, &root.name, sizeof(root.name));
    STATES
#undef STATE
    return sum;
}

// What the unit has told of its own faults: flags, or counts of them.
template <typename Model>
uint64_t told_by(const Model& model) {
    uint64_t told = 0;
    if constexpr (requires { model.alarms; }) told += model.fault + model.alarms;
    if constexpr (requires { model.upset; }) told += model.upset;
    if constexpr (requires { model.upsets; }) told += model.upsets;
    return told;
}

// Keeps the results of a beat, whatever they are.
void keep(const Vmodel& model, uint64_t slot, const Results& results, uint8_t* tags) {
    for (int lane = 0; lane < LANES; ++lane) {
        const auto field = [&](int position, int bits) {
            return get(model.o___05Fpayload, O_LANE_AT + lane * O_LANE_BITS + position, bits);
        };
        const uint64_t at = slot * LANES + lane;
#ifdef O_VALID_AT
        if (!field(O_VALID_AT, 1)) continue;
#endif
        results.seen[at] = 1 + field(O_SEEN_AT, 1);
        results.age[at] = field(O_AGE_AT, O_AGE_BITS);
#ifdef O_OLDEST_AT
        results.oldest[at] = field(O_OLDEST_AT, O_OLDEST_BITS);
#endif
#ifdef O_STATUS_AT
        results.status[at] = field(O_STATUS_AT, O_STATUS_BITS);
#endif
#ifdef O_TIME_AT
        results.time[at] = field(O_TIME_AT, O_TIME_BITS);
#endif
        tags[at] = field(O_TAG_AT, O_TAG_BITS);
    }
}

}  // namespace

extern "C" {

// Returns path, words, width and whether it is a memory of each element, as JSON.
const char* lately_elements() { return ELEMENT_NAMES; }

void lately_save(Unit* unit, uint64_t slot) {
    const auto* root = reinterpret_cast<const uint8_t*>(unit->model.rootp);
    auto& kept = snapshots[unit][slot];
    kept.root.assign(root, root + sizeof(Root));
    kept.driver = driver_state(*unit);
}

void lately_restore(Unit* unit, uint64_t slot) {
    const auto& kept = snapshots[unit][slot];
    std::memcpy(static_cast<void*>(unit->model.rootp), kept.root.data(), sizeof(Root));
    driver_state(*unit) = kept.driver;
}

// Flips a bit of an element, in the order of ELEMENTS.
void lately_flip(Unit* unit, uint64_t index, uint64_t word, uint64_t bit) {
    auto& root = *unit->model.rootp;
    switch (index) {
#define ELEMENT(number, name)         \
    case number:                      \
        flip(root.name, word, bit);   \
        break;
        ELEMENTS
#undef ELEMENT
    }
}

uint64_t lately_state(const Unit* unit) { return state_of(*unit->model.rootp); }

uint64_t lately_told(const Unit* unit) { return told_by(unit->model); }

// Goes on with a sequence as lately_run does, for so many clocks, or until `enough` beats have been
// answered, or none was in `patience` clocks; keeps results, of which nothing is expected, and a
// digest of the state after each clock, if there is room for them. Returns the beats answered.
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
