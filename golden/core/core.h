/* Shared by the files of the extension: arguments of calls, hash functions, engines, and texts. */
#ifndef LATELY_CORE_H
#define LATELY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifndef HASH_MANY
#define HASH_ELSEWHERE
#endif
#include "pure/hash.h"

#define FREE_KEYS 2048 /* number of keys from which a call releases the interpreter lock */

/* Arguments of a call. The functions below read them in order; after the first error, they return
   NULL or 0. So a caller checks for errors once, with `core_ready`. */

typedef struct {
    PyObject *objects[16]; /* borrowed; a nested tuple is replaced by its items */
    int given, next;
    int failed;            /* whether a Python error is set */
    Py_buffer views[12];   /* arrays that were read */
    int arrays;
    Py_ssize_t items;      /* number of items of the last array; 0 if it is NULL */
} Arguments;

enum { READ, WRITE, EITHER, OPTIONAL = 4 }; /* access to an array; EITHER: WRITE if possible */

Arguments core_arguments(PyObject *tuple);

/* Next argument, borrowed; NULL without an error if no argument is left. */
PyObject *core_object(Arguments *a);

int core_flag(Arguments *a);
int64_t core_integer(Arguments *a);
uint64_t core_word(Arguments *a); /* any integer, modulo 2**64 */

/* Bytes of a C-contiguous array with items of `size` bytes, any size if 0, and at least `count`
   items, any number if -1. If OPTIONAL, None or a missing argument gives NULL. */
void *core_array(Arguments *a, const char *name, int size, Py_ssize_t count, int access);

/* Sets a ValueError unless a condition is true or an error is set; returns whether none is set. */
int core_require(Arguments *a, int condition, const char *message);

/* Requires that all spans are valid and inside a buffer of `size` bytes. */
void core_require_spans(Arguments *a, const int64_t *starts, const int64_t *stops, Py_ssize_t count,
                        Py_ssize_t size);

/* Whether all arguments were read without an error. */
int core_ready(Arguments *a);

/* Releases the arrays, and returns the result: a new reference, or NULL with an error set. */
PyObject *core_finish(Arguments *a, PyObject *result);

/* Types */

int core_add_type(PyObject *module, PyTypeObject **type, const char *name, size_t size,
                  PyType_Slot *slots);

/* Frees the memory of an object, at the end of its tp_dealloc. */
void core_free(PyObject *object);

/* Hash functions of a Hash; NULL with an error set for another object. */
const Hash *hash_of(PyObject *object);

/* Engines: compiled states of filters, in arrays that numpy also holds */

#define CORE_READS "filter: must be attached with write=True to change it"

enum { BLAKE2B = 1, SIPHASH = 2 };

typedef struct Engine {
    PyObject_HEAD
    int64_t *counts; /* operations, insertions, hits, and late insertions if timed, come first */
    const Hash *hash;
    /* Performs QUERY, INSERT or CHECK of one key, without Python; returns its age, or -1 if it is
       not reported. */
    int64_t (*perform_key)(struct Engine *engine, int code, const uint64_t *key);
    int reads;           /* whether another process writes the memory */
    int timed;           /* whether operations have a time */
    int64_t now;         /* time of an operation; an insertion before the latest time is late */
    int digest;          /* digest of text: BLAKE2B, SIPHASH, or 0 while unknown */
    Secret digest_key;   /* key for SIPHASH */
    void *memory;        /* owned, or NULL */
    Arguments arguments; /* arguments of the constructor; `tuple` holds references to them */
    PyObject *tuple;
} Engine;

extern PyTypeObject *engine_type;

/* Adds a subtype of `engine_type`. */
int engine_add_type(PyObject *module, PyTypeObject **type, const char *name, size_t size,
                    newfunc new, PyMethodDef *methods);

/* Start and end of a constructor. */
Engine *engine_start(PyTypeObject *type, PyObject *args,
                     int64_t (*perform_key)(Engine *, int, const uint64_t *));
PyObject *engine_end(Engine *engine);

/* Reads the Hash of an engine from an argument. */
void engine_take_hash(Engine *engine, PyObject *object);

/* Operations on keys: an array of codes, or one code for all if `codes` is NULL. */
typedef struct {
    const uint8_t *codes;
    int code;
    const uint64_t *keys;
    Py_ssize_t count;
} Operations;

/* Reads two arguments, codes and keys. */
Operations engine_operations(const Engine *engine, Arguments *a);

/* Texts */

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

/* Contents of each file */

int core_add_hash(PyObject *module);
int core_add_calls(PyObject *module);
int core_add_ring(PyObject *module);
int core_add_dictionary(PyObject *module);
int core_add_timing(PyObject *module);

extern PyMethodDef core_captures_methods[], core_lines_methods[], core_packets_methods[],
    core_ring_methods[], core_texts_methods[];

#endif
