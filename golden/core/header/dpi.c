/* DPI-C model of the filter for SystemVerilog simulations; X_dpi.sv declares the functions. */
#include <stdlib.h>
#include "svdpi.h"
#include "X.h"

#ifdef __cplusplus /* some simulators compile C as C++ */
extern "C" {
#endif

void *X_dpi_new(uint64_t secret_low, uint64_t secret_high) {
    X_filter *filter = (X_filter *)malloc(sizeof *filter);
    (void)secret_low, (void)secret_high;
    if (filter) {
        X_init(filter X_DPI_SECRET);
    }
    return filter;
}

int64_t X_dpi_perform(void *filter, int operation, const svBitVecVal *bits, int64_t time,
                      int64_t window) {
    uint64_t words[X_DPI_BITS / 64 + 1] = {0};
    (void)time, (void)window;
    for (int part = 0; part < (X_DPI_BITS + 31) / 32; part++) {
        words[part / 2] |= (uint64_t)bits[part] << (32 * (part % 2));
    }
    words[(X_DPI_BITS - 1) / 64] &= X_DPI_MASK; /* bits beyond the key are undefined */
    return X_perform((X_filter *)filter, operation, X_DPI_KEY X_TIME X_ASK);
}

void X_dpi_free(void *filter) { free(filter); }

#ifdef __cplusplus
}
#endif
