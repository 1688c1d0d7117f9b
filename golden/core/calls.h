/* Calls for single keys: the part that all filters share. */
#ifndef LATELY_CALLS_H
#define LATELY_CALLS_H

#include "hash.h"

#define CORE_READS "filter: must be attached with write=True to change it"
#define CHECK_NEW 19 /* CHECK of a single key that is not inserted if it is reported */

enum { BLAKE2B = 1, SIPHASH = 2 };

/* First part of the compiled state of a filter, which lies in buffers that numpy sees too. Single
   keys need nothing of Python. */
typedef struct Engine {
    PyObject_HEAD
    Py_buffer numbers;     /* numbers of the filter */
    int64_t *counts;       /* first operations, insertions, hits, and late insertions if timed */
    int reads;             /* whether another process writes the memory */
    PyObject *hash_object; /* owned: the Hash with `hash` */
    const Hash *hash;
    int digest;                           /* digest of text: BLAKE2B, SIPHASH, or 0 while unknown */
    Secret digest_key;                    /* key for SIPHASH */
    /* Performs QUERY, INSERT or CHECK of one key, and returns its age; -1 if it is not reported. */
    int64_t (*one)(struct Engine *engine, int code, const uint64_t *key);
    int timed;   /* whether operations have a time, by default from the filter's `_clock` */
    int64_t now; /* the time; an insertion before the latest time is late */
} Engine;

/* Base type of compiled states. */
extern PyTypeObject *engine_type;

/* Bytes of a str or bytes object; returns 0 for other objects, or if UTF-8 cannot encode it. */
int text_bytes(PyObject *object, const uint8_t **bytes, Py_ssize_t *count);

/* Converts a single key to an int, str, bytes or tuple, a new reference; returns NULL without an
   error if the Python method is needed. */
PyObject *plain_key(PyObject *object);

/* Encoding of a tuple; none if `bytes` is NULL. */
typedef struct {
    uint8_t *bytes;
    Py_ssize_t count, room;
    uint8_t first[240]; /* buffer for short encodings */
} Text;

/* Encodes a tuple like `lately.golden.hash.keys`; returns 0 if the Python method is needed. */
int encode_tuple(PyObject *tuple, Text *text);
void free_text(Text *text);

/* Converts a text to a key of one word, with the digest of a filter. */
uint64_t text_key(const uint8_t *bytes, Py_ssize_t count, const Engine *engine);

/* Sets the numbers of an engine: at least `count` numbers of the filter. Returns 0, or -1 with an
   error set. */
int engine_count_in(Engine *engine, PyObject *numbers, Py_ssize_t count);

/* Sets the hash functions of an engine; returns 0, or -1 with an error set. */
int engine_hash(Engine *engine, PyObject *object);

/* Releases what an engine owns. */
void engine_release(Engine *engine);

#endif
