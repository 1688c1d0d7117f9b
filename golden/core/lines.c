/* Lines of a stream: their ends, their keys, and the kept lines. */
#include "core.h"

int core_within(const int64_t *starts, const int64_t *stops, Py_ssize_t count, Py_ssize_t size) {
    int outside = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        outside |= starts[i] < 0 || stops[i] < starts[i] || stops[i] > size;
    }
    if (outside) {
        PyErr_SetString(PyExc_ValueError, "spans: must be in the buffer");
        return 0;
    }
    return 1;
}

/* line_bounds(buffer, stop, bounds): writes where lines begin; returns their number. A line
   includes its newline; the last entry is the start of the first incomplete line. */
static PyObject *line_bounds(PyObject *self, PyObject *args) {
    PyObject *a, *b;
    Py_ssize_t stop, lines = 0;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OnO", &a, &stop, &b)) {
        return NULL;
    }
    const char *bytes = core_buffer(&all, a, 1, stop, 0, "buffer");
    int64_t *bounds = bytes ? core_buffer(&all, b, 8, 1, 1, "bounds") : NULL;
    if (!bounds || stop < 0) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t room = core_items(&all, 1) - 1;
    const char *at = bytes, *end = bytes + stop;
    bounds[0] = 0;
    Py_BEGIN_ALLOW_THREADS
    while (lines < room && (at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        bounds[++lines] = at - bytes;
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, PyLong_FromSsize_t(lines));
}

/* field_spans(buffer, field, delimiter, starts, stops): narrows spans to a field, counted from 1. A
   span without that field gets the start -1. */
static PyObject *field_spans(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c;
    Py_ssize_t field;
    int delimiter;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OniOO", &a, &field, &delimiter, &b, &c)) {
        return NULL;
    }
    const char *bytes = core_buffer(&all, a, 1, -1, 0, "buffer");
    int64_t *starts = bytes ? core_buffer(&all, b, 8, -1, 1, "starts") : NULL;
    Py_ssize_t count = starts ? core_items(&all, 1) : 0;
    int64_t *stops = starts ? core_buffer(&all, c, 8, count, 1, "stops") : NULL;
    if (!stops || !core_within(starts, stops, count, all.views[0].len)) {
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *at = bytes + starts[i], *end = bytes + stops[i];
        for (Py_ssize_t before = 1; at && before < field; before++) {
            at = memchr(at, delimiter, (size_t)(end - at));
            at = at ? at + 1 : NULL;
        }
        const char *last = at ? memchr(at, delimiter, (size_t)(end - at)) : NULL;
        starts[i] = at ? at - bytes : -1;
        stops[i] = last ? last - bytes : stops[i];
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

/* keep_lines(buffer, bounds, keep, out): copies the lines that are kept; returns their bytes. */
static PyObject *keep_lines(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c, *d;
    Py_ssize_t size = 0;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &a, &b, &c, &d)) {
        return NULL;
    }
    const char *bytes = core_buffer(&all, a, 1, -1, 0, "buffer");
    const uint8_t *keep = bytes ? core_buffer(&all, c, 1, -1, 0, "keep") : NULL;
    Py_ssize_t count = keep ? core_items(&all, 1) : 0;
    const int64_t *bounds = keep ? core_buffer(&all, b, 8, count + 1, 0, "bounds") : NULL;
    char *out = bounds ? core_buffer(&all, d, 1, -1, 1, "out") : NULL;
    if (!out || !core_within(bounds, bounds + 1, count, all.views[0].len)) {
        return core_finish(&all, NULL);
    }
    if (count && core_items(&all, 3) < bounds[count] - bounds[0]) {
        PyErr_SetString(PyExc_ValueError, "out: must have room for all lines");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count;) {
        /* Consecutive lines are copied at once. */
        Py_ssize_t first = i;
        while (i < count && keep[i]) {
            i++;
        }
        size_t length = (size_t)(bounds[i] - bounds[first]);
        memcpy(out + size, bytes + bounds[first], length);
        size += (Py_ssize_t)length;
        while (i < count && !keep[i]) {
            i++;
        }
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, PyLong_FromSsize_t(size));
}

PyMethodDef core_lines_methods[] = {
    {"line_bounds", line_bounds, METH_VARARGS, "Find the starts of the lines in a buffer."},
    {"field_spans", field_spans, METH_VARARGS, "Narrow spans to one of their fields."},
    {"keep_lines", keep_lines, METH_VARARGS, "Copy selected lines."},
    {NULL, NULL, 0, NULL},
};
