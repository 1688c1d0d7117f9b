typedef struct {
    int64_t operations, keys, hits, late; /* `late`: insertions before the latest time */
    TurnState turns;
    int64_t settled[X_SLICES]; /* last insertion into each slice no longer written */
    RingState state;           /* the ring, turned only by `turns` */
    X_FIRST_SECRET
    X_Cell memory[X_CELLS];
} X_filter;

ALWAYS Turns X_turns(X_filter *filter) {
    Turns turns = {X_WRITES, X_SLICES, X_SPAN, X_GENERATION_SPAN, 1, X_WHEN_FULL, NULL, NULL, X_WRITES};
    turns.state = &filter->turns;
    turns.settled = filter->settled;
    return turns;
}

/* Initializes an empty filter. */
static inline void X_init(X_filter *filter X_SECRET) {
    memset(filter, 0, sizeof *filter);
    Turns turns = X_turns(filter);
    filter->turns.generation = X_GENERATION;
    turns_clear(&turns);
    filter->state.generation = filter->state.length = RING_NUMBER;
    filter->state.cleared = X_ring.whole;
    X_TAKE_SECRET
}

/* Performs the operation with a hardware code: 1 QUERY, 2 INSERT, 3 CHECK_AND_INSERT, 4 SHIFT, 5
   CLEAR; any other code does nothing. Times must not decrease; an earlier time is replaced by the
   latest. Returns the minimum age of the key, in generations; -1 if the key is not reported, or the
   operation does not query. */
static inline int64_t X_perform(X_filter *filter, int operation, X_KEY, int64_t now) {
    int64_t latest = filter->turns.latest, age = -1;
    Turns turns = X_turns(filter);
    int inserts = operation == INSERT || operation == CHECK;
    filter->operations++;
    filter->keys += inserts;
    filter->late += inserts && now < latest;
    now = now > latest ? now : latest;
    if (inserts || operation == QUERY) {
        age = turns_perform_key(&turns, &X_ring, &filter->state, filter->memory, operation, X_WORDS,
                                now);
        filter->hits += age >= 0;
    } else if (operation == SHIFT) {
        turns_shift(&turns, now);
        ring_turn(&X_ring, &filter->state, filter->memory);
    } else if (operation == CLEAR) {
        turns_clear(&turns);
        ring_erase(&X_ring, &filter->state, filter->memory);
    }
    return age;
}

/* Returns the minimum age of a key, in generations; -1 if the key is not in the window. Changes
   nothing. */
static inline int64_t X_age(X_filter *filter, X_KEY, int64_t now) {
    Turns turns = X_turns(filter);
    now = now > filter->turns.latest ? now : filter->turns.latest;
    return turns_perform_key(&turns, &X_ring, &filter->state, filter->memory, QUERY, X_WORDS, now);
}

/* Returns 0 if the whole window is covered and the false-positive rate is within its bound, 1 if
   the window is shortened, 2 if the rate may exceed its bound. */
static inline int X_status(X_filter *filter, int64_t now) {
    Turns turns = X_turns(filter);
    return turns_status(&turns, now > filter->turns.latest ? now : filter->turns.latest);
}

/* Starts a new generation now. */
static inline void X_shift(X_filter *filter, int64_t now) {
    X_perform(filter, SHIFT, X_NO_KEY, now);
}

/* Sets the number of insertions per generation, at least 1; takes effect at the next shift or
   clear. */
static inline void X_set_generation(X_filter *filter, int64_t insertions) {
    filter->turns.generation = insertions;
}

static inline int X_is_sound(const X_filter *filter) {
    const TurnState *turns = &filter->turns;
    return ring_fits(&X_ring, &filter->state) && turns->length >= 1 && turns->generation >= 1 &&
           turns->filled >= 0;
}

static inline void X_settle(X_filter *filter) {
    ring_settle(&X_ring, &filter->state, filter->memory);
}
