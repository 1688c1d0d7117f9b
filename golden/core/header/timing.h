typedef struct {
    int64_t operations, keys, hits, late; /* `late`: insertions before the latest time */
    PartsNumbers state;
    X_Cell memory[X_CELLS];
} X_filter;

/* Initializes an empty filter. */
static inline void X_init(X_filter *filter) {
    memset(filter, 0, sizeof *filter);
    filter->state.last = -1;
}

/* Performs QUERY, INSERT or CHECK of a key; returns the age of its oldest cell. */
ALWAYS int64_t X_perform_key(X_filter *filter, int code, const uint64_t *key, int64_t now,
                             int64_t window) {
    int64_t blocks = window < X_WINDOW ? (window + X_BLOCK - 1) / X_BLOCK : X_WINDOW / X_BLOCK;
    int64_t oldest;
    uint8_t seen;
    PartsBatch batch = {key, NULL, code, &blocks, X_TIMED ? &now : NULL, &seen, &oldest, NULL};
    parts_perform(&X_parts, &filter->state, filter->memory, &batch, 1);
    return seen ? oldest : -1;
}

/* Performs the operation with a hardware code: 1 QUERY, 2 INSERT, 3 CHECK_AND_INSERT, 5 CLEAR; any
   other code does nothing. A window is rounded up to whole blocks. Returns the age of the key's
   oldest cell in blocks; -1 if the key is not reported, or the operation does not query. */
static inline int64_t X_perform(X_filter *filter, int operation, X_KEY X_NOW, int64_t window) {
    int inserts = operation == INSERT || operation == CHECK;
    int64_t age = -1, last = filter->state.last, now = X_MOMENT;
    filter->operations++;
    filter->keys += inserts;
    filter->late += inserts && now < last;
    if (inserts || operation == QUERY) {
        age = X_perform_key(filter, operation, X_WORDS, now > last ? now : last, window);
        filter->hits += age >= 0;
    } else if (operation == CLEAR) {
        memset(filter->memory, 0, sizeof filter->memory);
        filter->state.insertions = 0;
        filter->state.last = -1;
    }
    return age;
}

/* Returns the age of a key's oldest cell in blocks; -1 if the key is not in the window. Changes
   nothing. */
static inline int64_t X_age(X_filter *filter, X_KEY X_NOW, int64_t window) {
    int64_t last = filter->state.last, now = X_MOMENT;
    return X_perform_key(filter, QUERY, X_WORDS, now > last ? now : last, window);
}

static inline int X_is_sound(const X_filter *filter) {
    return filter->state.insertions >= 0 && filter->state.last >= -1;
}

static inline void X_settle(X_filter *filter) { (void)filter; }
