typedef struct {
    int64_t operations, keys, hits, late; /* `late`: insertions before the latest time */
    RotationState rotation;
    int64_t settled[X_SLICES]; /* last insertion into each slice no longer written */
    RingState state;           /* the ring, shifted only by `rotation` */
    X_FIRST_SECRET
    X_Cell memory[X_CELLS];
} X_filter;

ALWAYS Rotation X_rotation(X_filter *filter) {
    Rotation rotation = {X_WRITES, X_SLICES, X_SPAN, X_GENERATION_SPAN, 1, X_WHEN_FULL,
                         NULL, NULL, X_WRITES};
    rotation.state = &filter->rotation;
    rotation.settled = filter->settled;
    return rotation;
}

/* Initializes an empty filter. */
static inline void X_init(X_filter *filter X_SECRET) {
    memset(filter, 0, sizeof *filter);
    Rotation rotation = X_rotation(filter);
    filter->rotation.generation = X_GENERATION;
    rotation_clear(&rotation);
    filter->state.generation = filter->state.length = RING_NUMBER;
    filter->state.cleared = X_ring.whole;
    X_TAKE_SECRET
}

/* Performs the operation with a hardware code: 1 QUERY, 2 INSERT, 3 CHECK_AND_INSERT, 4 SHIFT, 5
   CLEAR; any other code does nothing. Times must not decrease; an earlier time is replaced by the
   latest. Returns the minimum age of the key, in generations; -1 if the key is not reported, or the
   operation does not query. */
static inline int64_t X_perform(X_filter *filter, int operation, X_KEY, int64_t now) {
    int64_t latest = filter->rotation.latest, age = -1;
    Rotation rotation = X_rotation(filter);
    int inserts = operation == INSERT || operation == CHECK;
    filter->operations++;
    filter->keys += inserts;
    filter->late += inserts && now < latest;
    now = now > latest ? now : latest;
    if (inserts || operation == QUERY) {
        age = rotation_perform_key(&rotation, &X_ring, &filter->state, filter->memory, operation,
                                   X_WORDS, now);
        filter->hits += age >= 0;
    } else if (operation == SHIFT) {
        rotation_shift(&rotation, now);
        ring_shift(&X_ring, &filter->state, filter->memory);
    } else if (operation == CLEAR) {
        rotation_clear(&rotation);
        ring_clear(&X_ring, &filter->state, filter->memory);
    }
    return age;
}

/* Returns the minimum age of a key, in generations; -1 if the key is not in the window. Changes
   nothing. */
static inline int64_t X_age(X_filter *filter, X_KEY, int64_t now) {
    Rotation rotation = X_rotation(filter);
    now = now > filter->rotation.latest ? now : filter->rotation.latest;
    return rotation_perform_key(&rotation, &X_ring, &filter->state, filter->memory, QUERY, X_WORDS,
                                now);
}

/* Returns 0 if the whole window is covered and the false-positive rate is within its bound, 1 if
   the window is shortened, 2 if the rate may exceed its bound. */
static inline int X_status(X_filter *filter, int64_t now) {
    Rotation rotation = X_rotation(filter);
    now = now > filter->rotation.latest ? now : filter->rotation.latest;
    return rotation_status(&rotation, now);
}

/* Starts a new generation now. */
static inline void X_shift(X_filter *filter, int64_t now) {
    X_perform(filter, SHIFT, X_NO_KEY, now);
}

/* Sets the number of insertions per generation, at least 1; takes effect at the next shift or
   clear. */
static inline void X_set_generation(X_filter *filter, int64_t insertions) {
    filter->rotation.generation = insertions;
}

static inline int X_is_sound(const X_filter *filter) {
    const RotationState *rotation = &filter->rotation;
    return ring_fits(&X_ring, &filter->state) && rotation->length >= 1 &&
           rotation->generation >= 1 && rotation->filled >= 0;
}

static inline void X_settle(X_filter *filter) {
    ring_settle(&X_ring, &filter->state, filter->memory);
}
