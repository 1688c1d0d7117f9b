/* Shifts of a ring whose window is a span of time: `RotationState` of lately.golden.ring. */
#ifndef LATELY_ROTATION_H
#define LATELY_ROTATION_H

#include "ring.h"

#define NEVER (-1)

enum { OVERFILL, SHORTEN, BY_CLOCK };         /* rules for a full generation */
enum { OK, WINDOW_SHORTENED, RATE_EXCEEDED }; /* codes of `PoolStatus` */

/* Numbers of a `RotationState`, before the times of its slices. */
typedef struct {
    int64_t filled, length, generation, first, last, lost, latest, overfull;
    int64_t insertions, shifts, shortened, overfilled;
} RotationState;

#define ROTATION_NUMBERS ((int64_t)(sizeof(RotationState) / sizeof(int64_t)))

typedef struct {
    int64_t writes, slices, span, old, spanned, rule; /* constants of the policy */
    RotationState *state;
    int64_t *settled; /* last insertion into each slice no longer written, by position */
    int64_t alive;    /* last result of `rotation_alive`, from `writes` to `slices` */
} Rotation;

/* Whether a slice whose last insertion was at `time` counts at `now`. */
static inline int rotation_counts(const Rotation *r, int64_t time, int64_t now) {
    return time != NEVER && now - time <= r->span;
}

/* Number of youngest slices that count; fast if it changed little since the last call. */
static inline int64_t rotation_alive(Rotation *r, int64_t now) {
    if (!rotation_counts(r, r->state->last, now)) {
        return 0;
    }
    while (r->alive > r->writes && !rotation_counts(r, r->settled[r->alive - 1], now)) {
        r->alive--;
    }
    while (r->alive < r->slices && rotation_counts(r, r->settled[r->alive], now)) {
        r->alive++;
    }
    return r->alive;
}

static inline uint8_t rotation_status(const Rotation *r, int64_t now) {
    const RotationState *s = r->state;
    if (rotation_counts(r, s->lost, now)) {
        return WINDOW_SHORTENED;
    }
    if (s->overfull < 0 || s->overfull >= r->slices) {
        return OK;
    }
    int64_t time = s->overfull < r->writes ? s->last : r->settled[s->overfull];
    return rotation_counts(r, time, now) ? RATE_EXCEEDED : OK;
}

static inline int64_t rotation_guaranteed_span(const Rotation *r, int64_t now) {
    int64_t since = now - r->state->lost - 1;
    if (!r->spanned) {
        return -1;
    }
    return r->state->lost == NEVER || since > r->span ? r->span : since;
}

/* Whether an insertion at `now` first shifts the ring. */
static inline int rotation_due(const Rotation *r, int64_t now) {
    const RotationState *s = r->state;
    int full = s->filled >= s->length;
    if (r->rule == BY_CLOCK) {
        return 0;
    }
    if (rotation_counts(r, r->settled[r->slices - 1], now)) {
        return full && r->rule == SHORTEN;
    }
    return full || (s->filled > 0 && now >= s->first + r->old);
}

/* Number of shifts due before an insertion in a joinable ring; if they clear every segment, the
   smallest number with the same effect. */
static inline int64_t rotation_due_by_clock(const Rotation *r, int64_t now) {
    int64_t latest = r->state->latest > 0 ? r->state->latest : 0, segments = r->slices + 1;
    int64_t shifts = r->rule == BY_CLOCK ? now / r->old - latest / r->old : 0;
    return shifts < 2 * segments ? shifts : segments + shifts % segments;
}

static inline void rotation_shift(Rotation *r, int64_t now) {
    RotationState *s = r->state;
    int64_t oldest = r->settled[r->slices - 1];
    if (r->spanned && rotation_counts(r, oldest, now)) {
        s->lost = oldest;
        s->shortened++;
    }
    r->settled[r->writes - 1] = s->last;
    memmove(r->settled + 1, r->settled, (size_t)(r->slices - 1) * sizeof *r->settled);
    r->settled[0] = NEVER;
    s->overfull = s->overfull >= 0 && s->overfull + 1 < r->slices ? s->overfull + 1 : -1;
    s->latest = now;
    s->filled = 0;
    s->length = s->generation;
    s->shifts++;
}

static inline void rotation_clear(Rotation *r) {
    RotationState *s = r->state;
    s->length = s->generation;
    s->filled = 0;
    s->first = s->last = s->lost = s->latest = NEVER;
    s->overfull = -1;
    for (int64_t position = 0; position < r->slices; position++) {
        r->settled[position] = NEVER;
    }
}

/* Updates the state for an operation; returns whether an insertion shifts the ring. */
static inline int rotation_perform(Rotation *r, int code, int64_t now) {
    RotationState *s = r->state;
    int inserts = (code & (INSERT | ALONE)) == INSERT, due = inserts && rotation_due(r, now);
    if (due || code == SHIFT) {
        rotation_shift(r, now);
    }
    if (inserts) {
        s->first = s->filled ? s->first : now;
        if (++s->filled > s->length) {
            s->overfilled++;
            s->overfull = 0;
        }
        s->insertions++;
        s->last = s->latest = now;
    } else if (code == CLEAR) {
        rotation_clear(r);
    }
    return due;
}

/* Performs QUERY, INSERT or CHECK of a key in a ring that only `r` shifts; returns its age, -1 if
   it is not in the window. */
static inline int64_t rotation_perform_key(Rotation *r, const Ring *ring, RingState *state,
                                           void *memory, int code, const uint64_t *key,
                                           int64_t now) {
    int64_t alive = rotation_alive(r, now), age = -1;
    if (rotation_perform(r, code, now)) { /* shifts between the query and the insertion */
        if (code & QUERY) {
            age = lowest(ring_perform_key(ring, state, memory, QUERY, key));
        }
        ring_shift(ring, state, memory);
        ring_perform_key(ring, state, memory, INSERT, key);
    } else {
        age = lowest(ring_perform_key(ring, state, memory, code, key));
    }
    return age + r->writes <= alive ? age : -1;
}

#endif
