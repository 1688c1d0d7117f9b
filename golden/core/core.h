/* What the files of the extension share: vector clones, buffers, the tables of functions. */
#ifndef LATELY_CORE_H
#define LATELY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* The compiler makes these loops once for each instruction set; the C library picks one at start.
   musl cannot, and older compilers do not know the last set. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(NO_CLONES)
#if (defined(__clang__) && __clang_major__ >= 16) || (!defined(__clang__) && __GNUC__ >= 12)
#define CLONES
#define WIDE __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#endif
#endif
#ifndef WIDE
#define WIDE
#endif

/* Keeps the compiler from holding operands of a sum of bits in memory until all are read. */
#if defined(__GNUC__)
#define IN_ORDER(value) __asm__("" : "+r"(value))
#else
#define IN_ORDER(value) (void)(value)
#endif

#define ALWAYS static inline __attribute__((always_inline))
#define NEVER_INLINE static __attribute__((noinline))
#define FREE_KEYS 2048 /* keys of a call from which on other threads may run */

static inline uint32_t rotate32(uint32_t value, unsigned amount) {
    return value << (amount & 31) | value >> (-amount & 31);
}

static inline uint64_t rotate64(uint64_t value, unsigned amount) {
    return value << (amount & 63) | value >> (-amount & 63);
}

/* Takes the buffer of an array: C-contiguous, of items of `size` bytes, at least `count` of them
   (any number if negative). Returns 0, or -1 with an error set. The caller releases the view. */
int core_take(PyObject *object, Py_buffer *view, Py_ssize_t size, Py_ssize_t count, int writable,
              const char *name);

/* Buffers that a function takes; `core_finish` releases them. */
typedef struct {
    Py_buffer views[12];
    int count;
} Buffers;

/* Takes one more buffer, as `core_take` does; returns its bytes, or NULL with an error set. */
void *core_buffer(Buffers *all, PyObject *object, Py_ssize_t size, Py_ssize_t count, int writable,
                  const char *name);

/* Releases all buffers, and returns the result. */
PyObject *core_finish(Buffers *all, PyObject *result);

static inline Py_ssize_t core_items(const Buffers *all, int index) {
    return all->views[index].len / all->views[index].itemsize;
}

/* Whether spans are in a buffer, and none ends before it begins; else an error is set. */
int core_within(const int64_t *starts, const int64_t *stops, Py_ssize_t count, Py_ssize_t size);

/* Makes a type of the module, with its name after the last dot as the attribute. */
int core_add_type(PyObject *module, PyTypeObject **type, const char *name, size_t size,
                  PyType_Slot *slots);

/* Types of each file. */
int core_add_hash(PyObject *module);
int core_add_calls(PyObject *module);
int core_add_ring(PyObject *module);
int core_add_dictionary(PyObject *module);
int core_add_timing(PyObject *module);
int core_add_turns(PyObject *module);

/* Functions of each file, ended by a row of zeros. */
extern PyMethodDef core_captures_methods[], core_lines_methods[], core_packets_methods[],
    core_texts_methods[], core_turns_methods[];

#endif
