
/* Loads a secret, which takes effect with the next segment, or at the next clear if the
   specification has `rekey` = false. Returns 0; or -1, without any effect, while an earlier secret
   is still in use. */
static inline int X_rekey(X_filter *filter, uint64_t secret_low, uint64_t secret_high) {
    RingState *state = &filter->state;
    if (X_ring.rekeys && (state->waits || state->older)) {
        return -1;
    }
    state->waiting.low = secret_low;
    state->waiting.high = secret_high;
    state->waits = 1;
    return 0;
}
