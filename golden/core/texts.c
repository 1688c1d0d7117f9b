/* Keys that are text: their digests, as `text_keys` makes them. */
#include "blake2b.h"
#include "calls.h"

int text_bytes(PyObject *object, const uint8_t **bytes, Py_ssize_t *count) {
    if (PyUnicode_CheckExact(object)) {
        *bytes = (const uint8_t *)PyUnicode_AsUTF8AndSize(object, count);
        if (!*bytes) {
            PyErr_Clear(); /* surrogates, of which Python makes bytes or an error */
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

uint64_t text_key(const uint8_t *bytes, Py_ssize_t count, Py_ssize_t key_bits) {
    uint64_t key;
    blake2b(bytes, count, 1, &key);
    return key_bits < 64 ? key & (((uint64_t)1 << key_bits) - 1) : key;
}

/* digest_texts(texts, words, digests): writes the digests of a list of str and bytes. Returns
   False if another kind of object, or text that UTF-8 does not have, is among them. */
static PyObject *digest_texts(PyObject *module, PyObject *args) {
    PyObject *texts, *out;
    int words;
    Buffers all = {.count = 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "O!iO", &PyList_Type, &texts, &words, &out)) {
        return NULL;
    }
    if (words < 1 || words > 8) {
        PyErr_SetString(PyExc_ValueError, "words: must be 1 to 8");
        return NULL;
    }
    Py_ssize_t total = PyList_Size(texts), count;
    uint64_t *digests = core_buffer(&all, out, 8, total * words, 1, "digests");
    for (Py_ssize_t i = 0; digests && i < total; i++) {
        const uint8_t *bytes;
        if (!text_bytes(PyList_GetItem(texts, i), &bytes, &count)) {
            return core_finish(&all, Py_NewRef(Py_False));
        }
        blake2b(bytes, count, words, digests + i * words);
    }
    return core_finish(&all, digests ? Py_NewRef(Py_True) : NULL);
}

PyMethodDef core_texts_methods[] = {
    {"digest_texts", digest_texts, METH_VARARGS, "Write the BLAKE2b digests of texts."},
    {NULL, NULL, 0, NULL},
};
