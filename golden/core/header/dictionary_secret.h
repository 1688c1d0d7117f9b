
/* Loads a secret, which takes effect at the next clear. Returns 0. */
static inline int X_rekey(X_filter *filter, uint64_t secret_low, uint64_t secret_high) {
    filter->later.low = secret_low;
    filter->later.high = secret_high;
    return 0;
}
