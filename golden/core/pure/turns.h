/* Turns of a ring whose window is a span of time: `RotationState` of lately.golden.ring. */
#ifndef LATELY_TURNS_H
#define LATELY_TURNS_H

#include "ring.h"

#define NEVER (-1)

enum { OVERFILL, SHORTEN, BY_CLOCK }; /* what to do at the end of a full generation */
enum { OK, WINDOW_SHORTENED, RATE_EXCEEDED }; /* codes of `PoolStatus` */

/* Numbers of a `RotationState`, before the times of its slices. */
typedef struct {
    int64_t filled, length, generation, first, last, lost, latest, overfull;
    int64_t insertions, shifts, shortened, overfilled;
} TurnState;

#define TURN_NUMBERS ((int64_t)(sizeof(TurnState) / sizeof(int64_t)))

typedef struct {
    int64_t writes, slices, span, old, spanned, rule; /* constants of the policy */
    TurnState *state;
    int64_t *settled; /* last insertion into each slice no longer written, by position */
    int64_t alive;    /* last result of `turns_alive`, from `writes` to `slices` */
} Turns;

/* Whether a slice whose last insertion was at `time` counts at `now`. */
static inline int turns_count(const Turns *t, int64_t time, int64_t now) {
    return time != NEVER && now - time <= t->span;
}

/* How many of the youngest slices count; fast if that changed little since the last call. */
static inline int64_t turns_alive(Turns *t, int64_t now) {
    if (!turns_count(t, t->state->last, now)) {
        return 0;
    }
    while (t->alive > t->writes && !turns_count(t, t->settled[t->alive - 1], now)) {
        t->alive--;
    }
    while (t->alive < t->slices && turns_count(t, t->settled[t->alive], now)) {
        t->alive++;
    }
    return t->alive;
}

static inline uint8_t turns_status(const Turns *t, int64_t now) {
    const TurnState *s = t->state;
    if (turns_count(t, s->lost, now)) {
        return WINDOW_SHORTENED;
    }
    if (s->overfull < 0 || s->overfull >= t->slices) {
        return OK;
    }
    int64_t time = s->overfull < t->writes ? s->last : t->settled[s->overfull];
    return turns_count(t, time, now) ? RATE_EXCEEDED : OK;
}

static inline int64_t turns_guaranteed_span(const Turns *t, int64_t now) {
    int64_t since = now - t->state->lost - 1;
    if (!t->spanned) {
        return -1;
    }
    return t->state->lost == NEVER || since > t->span ? t->span : since;
}

/* Whether the ring turns before an insertion. */
static inline int turns_due(const Turns *t, int64_t now) {
    const TurnState *s = t->state;
    int full = s->filled >= s->length;
    if (t->rule == BY_CLOCK) {
        return 0;
    }
    if (turns_count(t, t->settled[t->slices - 1], now)) {
        return full && t->rule == SHORTEN;
    }
    return full || (s->filled > 0 && now >= s->first + t->old);
}

/* Number of turns due before an insertion in a joinable ring; if they clear every segment, the
   smallest number with the same effect. */
static inline int64_t turns_due_by_clock(const Turns *t, int64_t now) {
    int64_t latest = t->state->latest > 0 ? t->state->latest : 0, segments = t->slices + 1;
    int64_t turns = t->rule == BY_CLOCK ? now / t->old - latest / t->old : 0;
    return turns < 2 * segments ? turns : segments + turns % segments;
}

static inline void turns_shift(Turns *t, int64_t now) {
    TurnState *s = t->state;
    int64_t oldest = t->settled[t->slices - 1];
    if (t->spanned && turns_count(t, oldest, now)) {
        s->lost = oldest;
        s->shortened++;
    }
    t->settled[t->writes - 1] = s->last;
    memmove(t->settled + 1, t->settled, (size_t)(t->slices - 1) * sizeof *t->settled);
    t->settled[0] = NEVER;
    s->overfull = s->overfull >= 0 && s->overfull + 1 < t->slices ? s->overfull + 1 : -1;
    s->latest = now;
    s->filled = 0;
    s->length = s->generation;
    s->shifts++;
}

/* Counts an insertion, without turning the ring. */
static inline void turns_insert(Turns *t, int64_t now) {
    TurnState *s = t->state;
    if (s->filled == 0) {
        s->first = now;
    }
    if (++s->filled > s->length) {
        s->overfilled++;
        s->overfull = 0;
    }
    s->insertions++;
    s->last = s->latest = now;
}

static inline void turns_clear(Turns *t) {
    TurnState *s = t->state;
    s->length = s->generation;
    s->filled = 0;
    s->first = s->last = s->lost = s->latest = NEVER;
    s->overfull = -1;
    for (int64_t position = 0; position < t->slices; position++) {
        t->settled[position] = NEVER;
    }
}

/* Updates the turns for an operation; returns whether an insertion turns the ring. */
static inline int turns_perform(Turns *t, int code, int64_t now) {
    int inserts = (code & (INSERT | ALONE)) == INSERT, due = inserts && turns_due(t, now);
    if (due || code == SHIFT) {
        turns_shift(t, now);
    }
    if (inserts) {
        turns_insert(t, now);
    } else if (code == CLEAR) {
        turns_clear(t);
    }
    return due;
}

/* Performs QUERY, INSERT or CHECK of a key in a ring that does not turn by itself; returns its age,
   -1 if it is not in the window. */
static inline int64_t turns_perform_key(Turns *t, const Ring *ring, RingState *state, void *memory,
                                        int code, const uint64_t *key, int64_t now) {
    int64_t alive = turns_alive(t, now), age = -1;
    if (turns_perform(t, code, now)) { /* the query sees the old ring, the insertion the new one */
        if (code & QUERY) {
            age = lowest(ring_perform_key(ring, state, memory, QUERY, key));
        }
        ring_turn(ring, state, memory);
        ring_perform_key(ring, state, memory, INSERT, key);
    } else {
        age = lowest(ring_perform_key(ring, state, memory, code, key));
    }
    return age + t->writes <= alive ? age : -1;
}

#endif
