typedef struct {
    DictionaryNumbers state;
    Secret later; /* takes effect at the next clear */
    X_FIRST_SECRET
    X_Cell memory[X_CELLS]; /* cells, then the times and the digests of the stash */
} X_filter;

/* Initializes an empty filter. */
static inline void X_init(X_filter *filter X_SECRET) {
    memset(filter, 0, sizeof *filter);
    X_TAKE_SECRET
    filter->later = filter->state.secret;
}

/* Performs QUERY, INSERT, CHECK or REMOVE of a key; returns its age. */
static inline int64_t X_perform_key(X_filter *filter, int code, const uint64_t *key,
                                    int64_t window) {
    int64_t *stash = filter->memory + X_CELLS - 2 * X_STASH, age = -1;
    DictionaryState state = {&filter->state, (DictionaryCell *)(void *)filter->memory, stash,
                             stash + X_STASH, 0};
    DictionaryWork work = {NULL, code, key, &window, &age, NULL, NULL};
    dictionary_perform(&X_shape, &state, &work, 1);
    return age;
}

/* Performs the operation with a hardware code: 1 QUERY, 2 INSERT, 3 CHECK_AND_INSERT, 5 CLEAR, 8
   REMOVE; any other code does nothing. Returns the key's age in insertions; -1 if the key is not
   reported, or the operation does not query. */
static inline int64_t X_perform(X_filter *filter, int operation, X_KEY, int64_t window) {
    DictionaryNumbers *state = &filter->state;
    int64_t age = -1;
    state->operations++;
    state->keys += operation == INSERT || operation == CHECK;
    if (operation == CLEAR) {
        memset(filter->memory, 0, sizeof filter->memory);
        state->insertions = state->lost = state->youngest_lost = state->stash_peak = 0;
        state->secret = filter->later;
    } else if ((operation >= QUERY && operation <= CHECK) || operation == REMOVE) {
        age = X_perform_key(filter, operation, X_WORDS, window);
        state->hits += age >= 0;
    }
    return age;
}

/* Returns the number of insertions after the last one of a key; -1 if the key is not in the window.
   Changes nothing. */
static inline int64_t X_age(X_filter *filter, X_KEY, int64_t window) {
    return X_perform_key(filter, QUERY, X_WORDS, window);
}

static inline void X_remove(X_filter *filter, X_KEY) {
    X_perform(filter, REMOVE, key, X_WINDOW);
}

/* Returns the largest window for which results are exact: X_WINDOW, unless an entry was evicted. */
static inline int64_t X_guaranteed_window(const X_filter *filter) {
    int64_t since = filter->state.insertions - filter->state.youngest_lost;
    return filter->state.lost && since < X_WINDOW ? since : X_WINDOW;
}

static inline int X_is_sound(const X_filter *filter) {
    const DictionaryNumbers *state = &filter->state;
    return state->insertions >= 0 && state->lost >= 0 && state->youngest_lost >= 0 &&
           state->youngest_lost <= state->insertions;
}

static inline void X_settle(X_filter *filter) { (void)filter; }
