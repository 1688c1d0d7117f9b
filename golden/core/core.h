/* Shared by the files of the extension: buffers, types and tables of functions. */
#ifndef LATELY_CORE_H
#define LATELY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pure/base.h"

#define NEVER_INLINE static __attribute__((noinline))
#define FREE_KEYS 2048 /* number of keys from which a call lets other threads run */

/* Gets the buffer of an array, which must be C-contiguous, with items of `size` bytes, and at least
   `count` items (any number if negative). Returns 0, or -1 with an error set. The caller releases
   the view. */
int core_take(PyObject *object, Py_buffer *view, Py_ssize_t size, Py_ssize_t count, int writable,
              const char *name);

/* Buffers that a function has acquired; `core_finish` releases them. */
typedef struct {
    Py_buffer views[12];
    int count;
} Buffers;

/* Gets one more buffer, like `core_take`; returns its bytes, or NULL with an error set. */
void *core_buffer(Buffers *all, PyObject *object, Py_ssize_t size, Py_ssize_t count, int writable,
                  const char *name);

/* Releases all buffers, and returns the result. */
PyObject *core_finish(Buffers *all, PyObject *result);

static inline Py_ssize_t core_items(const Buffers *all, int index) {
    return all->views[index].len / all->views[index].itemsize;
}

/* Whether all spans are valid and inside a buffer; sets an error if not. */
int core_within(const int64_t *starts, const int64_t *stops, Py_ssize_t count, Py_ssize_t size);

/* Adds a type to the module, under its name after the last dot. */
int core_add_type(PyObject *module, PyTypeObject **type, const char *name, size_t size,
                  PyType_Slot *slots);

/* Types of each file. */
int core_add_hash(PyObject *module);
int core_add_calls(PyObject *module);
int core_add_ring(PyObject *module);
int core_add_dictionary(PyObject *module);
int core_add_timing(PyObject *module);

/* Functions of each file, ended by a row of zeros. */
extern PyMethodDef core_captures_methods[], core_lines_methods[], core_packets_methods[],
    core_ring_methods[], core_texts_methods[];

#endif
