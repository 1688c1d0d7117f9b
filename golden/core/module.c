/* The module lately.golden._core: compiled golden models, equal to the models in Python. */
#include "core.h"

static void flatten(Arguments *a, PyObject *tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        if (PyTuple_Check(item)) {
            flatten(a, item);
        } else if (a->given < (int)(sizeof a->objects / sizeof *a->objects)) {
            a->objects[a->given++] = item;
        } else if (!a->failed) {
            a->failed = 1;
            PyErr_SetString(PyExc_TypeError, "too many arguments");
        }
    }
}

Arguments core_arguments(PyObject *tuple) {
    Arguments a = {.given = 0};
    flatten(&a, tuple);
    return a;
}

PyObject *core_object(Arguments *a) {
    return a->failed || a->next == a->given ? NULL : a->objects[a->next++];
}

/* Next argument; sets an error if no argument is left. */
static PyObject *needed(Arguments *a) {
    PyObject *object = core_object(a);
    if (!object && !a->failed) {
        a->failed = 1;
        PyErr_SetString(PyExc_TypeError, "too few arguments");
    }
    return object;
}

int core_flag(Arguments *a) {
    PyObject *object = needed(a);
    int flag = object ? PyObject_IsTrue(object) : 0;
    a->failed |= flag < 0;
    return flag > 0;
}

int64_t core_integer(Arguments *a) {
    PyObject *object = needed(a);
    int64_t value = object ? PyLong_AsLongLong(object) : 0;
    a->failed |= value == -1 && PyErr_Occurred();
    return a->failed ? 0 : value;
}

uint64_t core_word(Arguments *a) {
    PyObject *object = needed(a);
    uint64_t value = object ? PyLong_AsUnsignedLongLongMask(object) : 0;
    a->failed |= value == UINT64_MAX && PyErr_Occurred();
    return value;
}

void *core_array(Arguments *a, const char *name, int size, Py_ssize_t count, int access) {
    PyObject *object = access & OPTIONAL ? core_object(a) : needed(a);
    Py_buffer *view = &a->views[a->arrays];
    a->items = 0;
    if (!object || (access & OPTIONAL && object == Py_None)) {
        return NULL;
    }
    int flags = PyBUF_C_CONTIGUOUS | ((access & ~OPTIONAL) == READ ? 0 : PyBUF_WRITABLE);
    int error = PyObject_GetBuffer(object, view, flags);
    if (error && access == EITHER) {
        PyErr_Clear();
        error = PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS);
    }
    a->failed |= error != 0;
    if (error) {
        return NULL;
    }
    a->arrays++;
    a->items = view->len / view->itemsize;
    if ((size && view->itemsize != size) || a->items < count) {
        a->failed = 1;
        PyErr_Format(PyExc_ValueError, "%s: must have %zd items of %d bytes, not %zd of %zd", name,
                     count, size, a->items, view->itemsize);
    }
    return a->failed ? NULL : view->buf;
}

int core_require(Arguments *a, int condition, const char *message) {
    if (!condition && !a->failed) {
        a->failed = 1;
        PyErr_SetString(PyExc_ValueError, message);
    }
    return !a->failed;
}

void core_require_spans(Arguments *a, const int64_t *starts, const int64_t *stops, Py_ssize_t count,
                        Py_ssize_t size) {
    int outside = 0;
    for (Py_ssize_t i = 0; !a->failed && i < count; i++) {
        outside |= starts[i] < 0 || stops[i] < starts[i] || stops[i] > size;
    }
    core_require(a, !outside, "spans: must be in the buffer");
}

int core_ready(Arguments *a) {
    if (a->next < a->given && !a->failed) {
        a->failed = 1;
        PyErr_SetString(PyExc_TypeError, "too many arguments");
    }
    return !a->failed;
}

PyObject *core_finish(Arguments *a, PyObject *result) {
    while (a->arrays) {
        PyBuffer_Release(&a->views[--a->arrays]);
    }
    return result;
}

int core_add_type(PyObject *module, PyTypeObject **type, const char *name, size_t size,
                  PyType_Slot *slots) {
    PyType_Spec spec = {.name = name, .basicsize = (int)size, .slots = slots,
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE};
    if (!*type) {
        *type = (PyTypeObject *)PyType_FromSpec(&spec);
    }
    return *type ? PyModule_AddType(module, *type) : -1;
}

void core_free(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static int add_contents(PyObject *module) {
    PyMethodDef *tables[] = {core_captures_methods, core_lines_methods, core_packets_methods,
                             core_ring_methods,  core_texts_methods};
    int (*types[])(PyObject *) = {core_add_hash,  core_add_calls,      core_add_ring,
                               core_add_timing, core_add_dictionary};
    int error = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        error = error || PyModule_AddFunctions(module, tables[i]) < 0;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        error = error || types[i](module) < 0;
    }
    return error ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_contents}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lately.golden._core",
    .m_doc = "Compiled loops of the golden models.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
