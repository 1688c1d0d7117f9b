// Flips single bits of a verilated unit. Drivers include it after their Unit, which is a Progress
// with a model. generated.h lists the registers and memories in ELEMENTS and STATES.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace {

using Root = Vmodel___024root;

// The whole state between clocks. The model's members are numbers, arrays of numbers, and pointers
// that do not change.
struct Snapshot {
    std::vector<uint8_t> root;
    Progress driver;
};

std::map<const Unit*, std::array<Snapshot, 3>> snapshots;

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

// Digest of all registers and memories except event counters.
uint64_t state_of(const Root& root) {
    uint64_t sum = 0;
#define STATE(name) digest(sum, &root.name, sizeof(root.name));
    STATES
#undef STATE
    return sum;
}

// Faults that the unit has reported: flags or counts.
template <typename Model>
uint64_t reported_by(const Model& model) {
    uint64_t reported = 0;
    if constexpr (requires { model.alarms; }) reported += model.fault + model.alarms;
    if constexpr (requires { model.upset; }) reported += model.upset;
    if constexpr (requires { model.upsets; }) reported += model.upsets;
    return reported;
}

}  // namespace

extern "C" {

// Returns all elements as JSON: path, words, width, and whether it is a memory.
const char* lately_elements() { return ELEMENT_NAMES; }

void lately_save(Unit* unit, uint64_t slot) {
    const auto* root = reinterpret_cast<const uint8_t*>(unit->model.rootp);
    auto& kept = snapshots[unit][slot];
    kept.root.assign(root, root + sizeof(Root));
    kept.driver = *unit;
}

void lately_restore(Unit* unit, uint64_t slot) {
    const auto& kept = snapshots[unit][slot];
    std::memcpy(static_cast<void*>(unit->model.rootp), kept.root.data(), sizeof(Root));
    static_cast<Progress&>(*unit) = kept.driver;
}

// Flips a bit of an element, which is given by its position in ELEMENTS.
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

uint64_t lately_reported(const Unit* unit) { return reported_by(unit->model); }
}
