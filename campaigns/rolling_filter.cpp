// A window of n Boost.Bloom filters, like Boost's example rolling_filter: keys are inserted into
// one filter, a query asks all of them, and after each generation the oldest is cleared. Called
// from Python.
#include <boost/bloom.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

// Random keys need no better hash.
struct Mixed {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t key) const {
        key = (key ^ key >> 32) * 0x9E3779B97F4A7C15u;
        key = (key ^ key >> 29) * 0xBF58476D1CE4E5B9u;
        return key ^ key >> 32;
    }
};

using Filter = boost::bloom::filter<std::uint64_t, 1, boost::bloom::fast_multiblock32<8>, 0, Mixed>;

struct Rolling {
    std::size_t generation, filled = 0, young = 0;
    std::vector<Filter> filters;

    Rolling(std::size_t insertions, std::size_t count, std::size_t bits)
        : generation(insertions), filters(count) {
        for (Filter &filter : filters) filter.reset(bits / count);
    }
    bool seen(std::uint64_t key) const {
        for (const Filter &filter : filters)
            if (filter.may_contain(key)) return true;
        return false;
    }
    void insert(std::uint64_t key) {
        if (filled == generation) {
            young = (young + 1) % filters.size();
            filters[young].clear();
            filled = 0;
        }
        filters[young].insert(key);
        ++filled;
    }
};

}  // namespace

extern "C" {
void *rolling_new(std::size_t generation, std::size_t count, std::size_t bits) {
    return new Rolling(generation, count, bits);
}
std::size_t rolling_bits(const void *rolling) {
    const auto &filters = static_cast<const Rolling *>(rolling)->filters;
    return filters.size() * filters[0].capacity();
}
void rolling_check_and_insert(void *rolling, const std::uint64_t *keys, std::size_t count,
                              std::uint8_t *seen) {
    auto &filter = *static_cast<Rolling *>(rolling);
    for (std::size_t i = 0; i < count; ++i) {
        seen[i] = filter.seen(keys[i]);
        filter.insert(keys[i]);
    }
}
void rolling_delete(void *rolling) { delete static_cast<Rolling *>(rolling); }
}
