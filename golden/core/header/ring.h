typedef struct {
    RingState state;
    X_FIRST_SECRET
    X_Cell memory[X_CELLS];
} X_filter;

/* Initializes an empty filter. */
static inline void X_init(X_filter *filter X_SECRET) {
    memset(filter, 0, sizeof *filter);
    filter->state.generation = filter->state.length = X_GENERATION;
    filter->state.cleared = X_ring.whole;
    X_TAKE_SECRET
}

/* Performs the operation with a hardware code: 1 QUERY, 2 INSERT, 3 CHECK_AND_INSERT, 4 SHIFT, 5
   CLEAR; any other code does nothing. Returns the minimum age of the key, in generations; -1 if the
   key is not reported, or the operation does not query. */
static inline int64_t X_perform(X_filter *filter, int operation, X_KEY) {
    RingState *state = &filter->state;
    state->operations++;
    if (operation == SHIFT) {
        ring_shift(&X_ring, state, filter->memory);
    } else if (operation == CLEAR) {
        ring_clear(&X_ring, state, filter->memory);
    } else if (operation == QUERY || operation == INSERT || operation == CHECK) {
        uint64_t value = ring_perform_key(&X_ring, state, filter->memory, operation, X_WORDS);
        state->keys += (operation & INSERT) != 0;
        state->hits += value != 0;
        return lowest(value);
    }
    return -1;
}

/* Returns the minimum age of a key, in generations; -1 if the key is not in the window. Changes
   nothing. */
static inline int64_t X_age(X_filter *filter, X_KEY) {
    return lowest(ring_perform_key(&X_ring, &filter->state, filter->memory, QUERY, X_WORDS));
}

/* Maximum stack use of X_check_and_insert_many in bytes, if compiled with optimizations. */
#define X_STACK (sizeof(RingIndexes) * X_INDEXES + sizeof(RingRow) * X_MASKS + 12288)

/* Checks and inserts keys one after another; from 8 keys on, faster than single calls. Writes to
   `seen`, unless NULL, whether each key was in the window. Returns the number of keys that were. */
static inline int64_t X_check_and_insert_many(X_filter *filter, const uint64_t *keys, size_t count,
                                              uint8_t *seen) {
    RingIndexes indexes[X_INDEXES];
    RingRow masks[X_MASKS];
    int64_t hits = ring_perform(&X_ring, &filter->state, filter->memory, indexes, masks, NULL,
                                CHECK, keys, (ptrdiff_t)count, NULL, seen);
    filter->state.operations += (int64_t)count;
    filter->state.keys += (int64_t)count;
    filter->state.hits += hits;
    return hits;
}

/* Starts a new generation now. */
static inline void X_shift(X_filter *filter) { X_perform(filter, SHIFT, X_NO_KEY); }

/* Sets the number of insertions per generation, at least 1; takes effect at the next shift or
   clear. */
static inline void X_set_generation(X_filter *filter, int64_t insertions) {
    filter->state.generation = insertions;
}

static inline int X_is_sound(const X_filter *filter) { return ring_fits(&X_ring, &filter->state); }

static inline void X_settle(X_filter *filter) {
    ring_settle(&X_ring, &filter->state, filter->memory);
}
