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
    Py_buffer numbers;     /* of the filter */
    int64_t *counts;       /* the first: operations, insertions, hits; late ones if it is timed */
    int reads;             /* whether another process writes the memory */
    PyObject *hash_object; /* owned: the Hash with `hash` */
    const Hash *hash;
    int digest;                           /* of text: BLAKE2B, SIPHASH, or 0 while unknown */
    Secret digest_key;                    /* of SIPHASH */
    /* Performs QUERY, INSERT or CHECK of one key, and returns its age; -1 if it is not reported. */
    int64_t (*one)(struct Engine *engine, int code, const uint64_t *key);
    int timed;   /* whether a single key has the time that the filter's `_clock` gives */
    int64_t now; /* that time; an insertion before the latest time counts as late */
} Engine;

/* Type on which compiled states build. */
extern PyTypeObject *engine_type;

/* Bytes of a str or bytes object; returns 0 if it is another, or has no UTF-8. */
int text_bytes(PyObject *object, const uint8_t **bytes, Py_ssize_t *count);

/* Returns the int, str, bytes or tuple for which a single key stands, a new reference; NULL without
   an error if the method of Python is needed. */
PyObject *plain_key(PyObject *object);

/* Bytes that encode a tuple; none if `bytes` is NULL. */
typedef struct {
    uint8_t *bytes;
    Py_ssize_t count, room;
    uint8_t first[240]; /* where short ones are */
} Text;

/* Encodes a tuple as `key_forms` does; returns 0 if the method of Python is needed. */
int encode_tuple(PyObject *tuple, Text *text);
void free_text(Text *text);

/* Key of one word of a text, by the digest of a filter. */
uint64_t text_key(const uint8_t *bytes, Py_ssize_t count, const Engine *engine);

/* Lets numbers of the filter, `count` of them or more, be those of an engine; returns 0, or -1 with
   an error set. */
int engine_count_in(Engine *engine, PyObject *numbers, Py_ssize_t count);

/* Takes the object as the hash functions of an engine; returns 0, or -1 with an error set. */
int engine_hash(Engine *engine, PyObject *object);

/* Releases what an engine owns. */
void engine_release(Engine *engine);

#endif
