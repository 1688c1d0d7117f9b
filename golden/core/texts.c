/* Digests of keys that are text, as in `lately.golden.hash.keys`. */
#include "core.h"
#include "pure/blake2b.h"

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
__attribute__((noinline)) static void compute(const Digest *digest, const uint8_t *bytes,
                                              Py_ssize_t count, uint64_t *out) {
    if (!digest->keys) {
        blake2b(bytes, count, (int)digest->words, out);
        return;
    }
    for (Py_ssize_t word = 0; word < digest->words; word++) {
        out[word] = siphash(bytes, count, digest->keys[word].low, digest->keys[word].high);
    }
}

uint64_t text_key(const uint8_t *bytes, Py_ssize_t count, const Engine *engine) {
    Digest digest = {engine->digest == SIPHASH ? &engine->digest_key : NULL, 1};
    Py_ssize_t key_bits = engine->hash->key_bits;
    uint64_t key;
    compute(&digest, bytes, count, &key);
    return key_bits < 64 ? key & (((uint64_t)1 << key_bits) - 1) : key;
}

/* Reads the keys and the output for the digests of `count` texts; returns the output. */
static uint64_t *take_digest(Arguments *a, Digest *digest, Py_ssize_t count) {
    const Secret *keys = core_array(a, "keys", 8, -1, READ);
    Py_ssize_t key_count = a->items / 2;
    uint64_t *digests = core_array(a, "digests", 8, count, WRITE);
    digest->keys = key_count ? keys : NULL;
    digest->words = count ? a->items / count : 1;
    core_require(a, a->items == count * digest->words &&
                        digest->words <= (key_count ? key_count : 8),
                 "digests: must have a row of words for each text");
    return digests;
}

/* digest_texts(texts, keys, digests): writes the digests of a list of str and bytes. Returns False
   if the list contains another kind of object, or text that UTF-8 cannot encode. */
static PyObject *digest_texts(PyObject *module, PyObject *args) {
    Digest digest;
    Arguments a = core_arguments(args);
    PyObject *texts = core_object(&a);
    Py_ssize_t total = texts && PyList_Check(texts) ? PyList_Size(texts) : -1, count;
    core_require(&a, total >= 0, "texts: must be a list");
    uint64_t *digests = take_digest(&a, &digest, total);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    for (Py_ssize_t i = 0; i < total; i++) {
        const uint8_t *bytes;
        if (!text_bytes(PyList_GetItem(texts, i), &bytes, &count)) {
            return core_finish(&a, Py_NewRef(Py_False));
        }
        compute(&digest, bytes, count, digests + i * digest.words);
    }
    return core_finish(&a, Py_NewRef(Py_True));
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
    char short_digits[24];
    int64_t number = PyLong_AsLongLong(integer);
    if (!PyErr_Occurred()) {
        count = PyOS_snprintf(short_digits, sizeof short_digits, "%lld", (long long)number);
        return add_element(text, 'i', (const uint8_t *)short_digits, count);
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
    Digest digest;
    Arguments a = core_arguments(args);
    const uint8_t *bytes = core_array(&a, "buffer", 1, -1, READ);
    Py_ssize_t buffer_size = a.items, room = 0;
    const int64_t *starts = core_array(&a, "starts", 8, -1, READ);
    Py_ssize_t total = a.items;
    const int64_t *stops = core_array(&a, "stops", 8, total, READ);
    const uint8_t *tags = core_array(&a, "tags", 1, -1, READ);
    Py_ssize_t width = a.items, count = width ? total / width : total;
    uint64_t *digests = take_digest(&a, &digest, count);
    core_require_spans(&a, starts, stops, total, buffer_size);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    for (Py_ssize_t i = 0; width && i < count * width; i += width) {
        Py_ssize_t size = encode(NULL, bytes, starts + i, stops + i, tags, width);
        room = size > room ? size : room;
    }
    uint8_t *row = PyMem_Malloc((size_t)room);
    if (!row) {
        return core_finish(&a, PyErr_NoMemory());
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        const uint8_t *text = width ? row : bytes + starts[i];
        Py_ssize_t from = i * width;
        Py_ssize_t size = width ? encode(row, bytes, starts + from, stops + from, tags, width)
                                : stops[i] - starts[i];
        compute(&digest, text, size, digests + i * digest.words);
    }
    Py_END_ALLOW_THREADS
    PyMem_Free(row);
    return core_finish(&a, Py_NewRef(Py_None));
}

PyMethodDef core_texts_methods[] = {
    {"digest_texts", digest_texts, METH_VARARGS, "Write the digests of a list of texts."},
    {"digest_spans", digest_spans, METH_VARARGS, "Write the digests of spans in a buffer."},
    {NULL, NULL, 0, NULL},
};
