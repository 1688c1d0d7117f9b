/* The module lately.golden._core: compiled golden models, equal to the Python form. */
#include "core.h"

int core_take(PyObject *object, Py_buffer *view, Py_ssize_t size, Py_ssize_t count, int writable,
              const char *name) {
    int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) {
        return -1;
    }
    if (view->itemsize != size || (count >= 0 && view->len / size < count)) {
        PyErr_Format(PyExc_ValueError, "%s: must have %zd items of %zd bytes, not %zd of %zd", name,
                     count, size, view->len / view->itemsize, view->itemsize);
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

void *core_buffer(Buffers *all, PyObject *object, Py_ssize_t size, Py_ssize_t count, int writable,
                  const char *name) {
    Py_buffer *view = &all->views[all->count];
    if (core_take(object, view, size, count, writable, name) < 0) {
        return NULL;
    }
    all->count++;
    return view->buf;
}

PyObject *core_finish(Buffers *all, PyObject *result) {
    while (all->count) {
        PyBuffer_Release(&all->views[--all->count]);
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

static int add_contents(PyObject *module) {
    PyMethodDef *tables[] = {core_captures_methods, core_lines_methods, core_packets_methods,
                             core_ring_methods,  core_texts_methods};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (PyModule_AddFunctions(module, tables[i]) < 0) {
            return -1;
        }
    }
    int (*types[])(PyObject *) = {core_add_hash,  core_add_calls,      core_add_ring,
                               core_add_timing, core_add_dictionary};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i](module) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_contents}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lately.golden._core",
    .m_doc = "Compiled loops of the golden models.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
