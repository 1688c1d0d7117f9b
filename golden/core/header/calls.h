
/* Returns whether a key is in the window, then inserts it. */
static inline int X_check_and_insert(X_filter *filter, X_KEY X_NOW) {
    return X_perform(filter, CHECK, key X_TIME X_WHOLE) >= 0;
}

static inline void X_insert(X_filter *filter, X_KEY X_NOW) {
    X_perform(filter, INSERT, key X_TIME X_WHOLE);
}

/* Returns whether a key is in the window; changes nothing. */
static inline int X_query(X_filter *filter, X_KEY X_NOW X_ASKED) {
    return X_age(filter, key X_TIME X_ASK) >= 0;
}

/* Forgets all keys. A secret that X_rekey loaded takes effect now, if not earlier. Counters keep
   their values. */
static inline void X_clear(X_filter *filter) {
    X_perform(filter, CLEAR, X_NO_KEY X_NO_TIME X_WHOLE);
}
