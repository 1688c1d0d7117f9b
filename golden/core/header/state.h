
static inline void X_put(uint8_t **at, uint64_t value, size_t size) {
    for (; size--; value >>= 8) {
        *(*at)++ = (uint8_t)value;
    }
}

static inline uint64_t X_take(const uint8_t **at, size_t size) {
    uint64_t value = 0;
    for (size_t byte = 0; byte < size; byte++) {
        value |= (uint64_t)*(*at)++ << (8 * byte);
    }
    return value;
}

/* Writes the state, secrets included, as X_STATE_BYTES bytes in a format that is the same on every
   machine. `lately convert` converts them to a state file. */
static inline void X_save(X_filter *filter, uint8_t *bytes) {
    X_settle(filter);
    X_put(&bytes, X_FINGERPRINT, 8);
    for (size_t at = 0; at < offsetof(X_filter, memory); at += 8) {
        uint64_t number;
        memcpy(&number, (const char *)filter + at, 8);
        X_put(&bytes, number, 8);
    }
    for (size_t at = 0; at < X_CELLS; at++) {
        X_put(&bytes, (uint64_t)filter->memory[at], sizeof filter->memory[at]);
    }
}

/* Restores a state that X_save wrote. Returns 0; or -1 if the bytes are damaged or from another
   filter, and then X_init must be called before the filter is used. */
static inline int X_load(X_filter *filter, const uint8_t *bytes) {
    if (X_take(&bytes, 8) != X_FINGERPRINT) {
        return -1;
    }
    for (size_t at = 0; at < offsetof(X_filter, memory); at += 8) {
        uint64_t number = X_take(&bytes, 8);
        memcpy((char *)filter + at, &number, 8);
    }
    for (size_t at = 0; at < X_CELLS; at++) {
        filter->memory[at] = (X_Cell)X_take(&bytes, sizeof filter->memory[at]);
    }
    return X_is_sound(filter) ? 0 : -1;
}
