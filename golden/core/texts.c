/* Digests of keys that are text, as in `lately.golden.hash.keys`. */
#include "pure/blake2b.h"
#include "calls.h"

int text_bytes(PyObject *object, const uint8_t **bytes, Py_ssize_t *count) {
    if (PyUnicode_CheckExact(object)) {
        *bytes = (const uint8_t *)PyUnicode_AsUTF8AndSize(object, count);
        if (!*bytes) {
            PyErr_Clear(); /* surrogates: Python converts them to bytes, or raises an error */
            return 0;
        }
        return 1;
    }
    if (PyBytes_CheckExact(object)) {
        *bytes = (const uint8_t *)PyBytes_AsString(object);
        *count = PyBytes_Size(object);
        return 1;
    }
    return 0;
}

/* Digest of several words: SipHash with a key for each word, or BLAKE2b if there are no keys. */
typedef struct {
    const Secret *keys;
    Py_ssize_t words;
} Digest;

/* Not inlined, as it is long. */
NEVER_INLINE void digest(const Digest *digest, const uint8_t *bytes, Py_ssize_t count,
                         uint64_t *out) {
    if (!digest->keys) {
        blake2b(bytes, count, (int)digest->words, out);
        return;
    }
    for (Py_ssize_t word = 0; word < digest->words; word++) {
        out[word] = siphash(bytes, count, digest->keys[word].low, digest->keys[word].high);
    }
}

uint64_t text_key(const uint8_t *bytes, Py_ssize_t count, const Engine *engine) {
    Digest own = {engine->digest == SIPHASH ? &engine->digest_key : NULL, 1};
    Py_ssize_t key_bits = engine->hash->key_bits;
    uint64_t key;
    digest(&own, bytes, count, &key);
    return key_bits < 64 ? key & (((uint64_t)1 << key_bits) - 1) : key;
}

/* Gets the keys and the output for the digests of `count` texts; returns the output, or NULL with
   an error. */
static uint64_t *take_digest(Buffers *all, Digest *digest, PyObject *keys, PyObject *out,
                             Py_ssize_t count) {
    const Secret *found = core_buffer(all, keys, 8, -1, 0, "keys");
    uint64_t *digests = found ? core_buffer(all, out, 8, count, 1, "digests") : NULL;
    if (!digests) {
        return NULL;
    }
    Py_ssize_t given = core_items(all, all->count - 2) / 2, room = core_items(all, all->count - 1);
    digest->keys = given ? found : NULL;
    digest->words = count ? room / count : 1;
    if (room != count * digest->words || digest->words > (given ? given : 8)) {
        PyErr_SetString(PyExc_ValueError, "digests: must have a row of words for each text");
        return NULL;
    }
    return digests;
}

/* digest_texts(texts, keys, digests): writes the digests of a list of str and bytes. Returns False
   if the list contains another kind of object, or text that UTF-8 cannot encode. */
static PyObject *digest_texts(PyObject *module, PyObject *args) {
    PyObject *texts, *keys, *out;
    Buffers all = {.count = 0};
    Digest own;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OO", &PyList_Type, &texts, &keys, &out)) {
        return NULL;
    }
    Py_ssize_t total = PyList_Size(texts), count;
    uint64_t *digests = take_digest(&all, &own, keys, out, total);
    for (Py_ssize_t i = 0; digests && i < total; i++) {
        const uint8_t *bytes;
        if (!text_bytes(PyList_GetItem(texts, i), &bytes, &count)) {
            return core_finish(&all, Py_NewRef(Py_False));
        }
        digest(&own, bytes, count, digests + i * own.words);
    }
    return core_finish(&all, digests ? Py_NewRef(Py_True) : NULL);
}

static uint8_t *head(uint8_t *at, uint8_t tag, int64_t count) {
    *at++ = tag;
    for (int i = 0; i < 64; i += 8) {
        *at++ = (uint8_t)(count >> i);
    }
    return at;
}

#define MAX_DEPTH 20 /* maximum nesting of tuples */

void free_text(Text *text) {
    if (text->bytes != text->first) {
        PyMem_Free(text->bytes);
    }
}

/* Extends a text; returns the start of the new bytes, or NULL. */
static uint8_t *extend(Text *text, Py_ssize_t count) {
    if (!text->bytes) {
        text->bytes = text->first;
        text->count = 0;
        text->room = sizeof text->first;
    }
    if (count > text->room - text->count) {
        Py_ssize_t room = 2 * (text->room + count);
        int first = text->bytes == text->first;
        uint8_t *larger = PyMem_Realloc(first ? NULL : text->bytes, (size_t)room);
        if (!larger) {
            return NULL;
        }
        if (first) {
            memcpy(larger, text->first, (size_t)text->count);
        }
        text->bytes = larger;
        text->room = room;
    }
    text->count += count;
    return text->bytes + text->count - count;
}

static int add_element(Text *text, uint8_t tag, const uint8_t *bytes, Py_ssize_t count) {
    uint8_t *at = extend(text, 9 + count);
    if (at) {
        memcpy(head(at, tag, count), bytes, (size_t)count);
    }
    return at != NULL;
}

static int add_integer(Text *text, PyObject *integer) {
    const uint8_t *digits;
    Py_ssize_t count;
    char own[24];
    int64_t number = PyLong_AsLongLong(integer);
    if (!PyErr_Occurred()) {
        count = PyOS_snprintf(own, sizeof own, "%lld", (long long)number);
        return add_element(text, 'i', (const uint8_t *)own, count);
    }
    PyErr_Clear();
    PyObject *decimal = PyObject_Str(integer);
    int added = decimal && text_bytes(decimal, &digits, &count) &&
                add_element(text, 'i', digits, count);
    Py_XDECREF(decimal);
    return added;
}

static int add_tuple(Text *text, PyObject *tuple, int depth) {
    const uint8_t *bytes;
    Py_ssize_t at = depth ? text->count : 0, count;
    int added = depth < MAX_DEPTH && extend(text, 9);
    for (Py_ssize_t i = 0; added && i < PyTuple_Size(tuple); i++) {
        PyObject *plain = plain_key(PyTuple_GetItem(tuple, i));
        if (!plain) {
            return 0;
        }
        if (PyTuple_Check(plain)) {
            added = add_tuple(text, plain, depth + 1);
        } else if (PyLong_CheckExact(plain)) {
            added = add_integer(text, plain);
        } else {
            added = text_bytes(plain, &bytes, &count) && add_element(text, 'b', bytes, count);
        }
        Py_DECREF(plain);
    }
    if (added) {
        head(text->bytes + at, 't', text->count - at - 9);
    }
    return added;
}

int encode_tuple(PyObject *tuple, Text *text) {
    int added = add_tuple(text, tuple, 0);
    PyErr_Clear(); /* the Python method reports the error */
    return added;
}

/* Encodes a tuple of spans like `lately.golden.hash.keys`, each span with a tag, or already encoded
   if its tag is 0. Returns the number of bytes, even if `row` is NULL. */
static Py_ssize_t encode(uint8_t *row, const uint8_t *bytes, const int64_t *starts,
                         const int64_t *stops, const uint8_t *tags, Py_ssize_t width) {
    Py_ssize_t size = 9;
    for (Py_ssize_t i = 0; i < width; i++) {
        int64_t count = stops[i] - starts[i];
        if (row) {
            uint8_t *at = tags[i] ? head(row + size, tags[i], count) : row + size;
            memcpy(at, bytes + starts[i], (size_t)count);
        }
        size += (tags[i] ? 9 : 0) + count;
    }
    if (row) {
        head(row, 't', size - 9);
    }
    return size;
}

/* digest_spans(buffer, starts, stops, tags, keys, digests): writes the digests of spans of a
   buffer; with tags, of tuples, each consisting of as many spans as there are tags. */
static PyObject *digest_spans(PyObject *module, PyObject *args) {
    PyObject *a, *b, *c, *d, *e, *f;
    Buffers all = {.count = 0};
    Digest own;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOO", &a, &b, &c, &d, &e, &f)) {
        return NULL;
    }
    const uint8_t *bytes = core_buffer(&all, a, 1, -1, 0, "buffer");
    const int64_t *starts = bytes ? core_buffer(&all, b, 8, -1, 0, "starts") : NULL;
    Py_ssize_t total = starts ? core_items(&all, 1) : 0;
    const int64_t *stops = starts ? core_buffer(&all, c, 8, total, 0, "stops") : NULL;
    const uint8_t *tags = stops ? core_buffer(&all, d, 1, -1, 0, "tags") : NULL;
    Py_ssize_t width = tags ? core_items(&all, 3) : 0, count = width ? total / width : total;
    uint64_t *digests = tags ? take_digest(&all, &own, e, f, count) : NULL;
    if (!digests || !core_within(starts, stops, total, all.views[0].len)) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t room = 0;
    for (Py_ssize_t i = 0; width && i < count * width; i += width) {
        Py_ssize_t size = encode(NULL, bytes, starts + i, stops + i, tags, width);
        room = size > room ? size : room;
    }
    uint8_t *row = PyMem_Malloc((size_t)room);
    if (!row) {
        return core_finish(&all, PyErr_NoMemory());
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        const uint8_t *text = width ? row : bytes + starts[i];
        Py_ssize_t from = i * width;
        Py_ssize_t size = width ? encode(row, bytes, starts + from, stops + from, tags, width)
                                : stops[i] - starts[i];
        digest(&own, text, size, digests + i * own.words);
    }
    Py_END_ALLOW_THREADS
    PyMem_Free(row);
    return core_finish(&all, Py_NewRef(Py_None));
}

PyMethodDef core_texts_methods[] = {
    {"digest_texts", digest_texts, METH_VARARGS, "Write the digests of a list of texts."},
    {"digest_spans", digest_spans, METH_VARARGS, "Write the digests of spans in a buffer."},
    {NULL, NULL, 0, NULL},
};
