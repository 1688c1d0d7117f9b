/* Lines of a stream: their ends, their keys, and the kept lines. */
#include "core.h"

/* line_bounds(buffer, stop, bounds): writes where lines begin; returns the number of lines. A line
   includes its newline; the last entry is the start of the first incomplete line. */
static PyObject *line_bounds(PyObject *module, PyObject *args) {
    Arguments a = core_arguments(args);
    const char *bytes = core_array(&a, "buffer", 1, -1, READ), *at = bytes;
    Py_ssize_t size = a.items, stop = core_integer(&a), lines = 0;
    int64_t *bounds = core_array(&a, "bounds", 8, 1, WRITE);
    Py_ssize_t room = a.items - 1;
    core_require(&a, stop >= 0 && stop <= size, "buffer: must have all bytes up to stop");
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    bounds[0] = 0;
    Py_BEGIN_ALLOW_THREADS
    while (lines < room && (at = memchr(at, '\n', (size_t)(bytes + stop - at)))) {
        at++;
        bounds[++lines] = at - bytes;
    }
    Py_END_ALLOW_THREADS
    return core_finish(&a, PyLong_FromSsize_t(lines));
}

/* field_spans(buffer, field, delimiter, starts, stops): narrows spans to a field, counted from 1.
   The start is -1 for a span without that field. */
static PyObject *field_spans(PyObject *module, PyObject *args) {
    Arguments a = core_arguments(args);
    const char *bytes = core_array(&a, "buffer", 1, -1, READ);
    Py_ssize_t size = a.items;
    int64_t field = core_integer(&a);
    int delimiter = (int)core_integer(&a);
    int64_t *starts = core_array(&a, "starts", 8, -1, WRITE);
    Py_ssize_t count = a.items;
    int64_t *stops = core_array(&a, "stops", 8, count, WRITE);
    core_require_spans(&a, starts, stops, count, size);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *at = bytes + starts[i], *end = bytes + stops[i];
        for (int64_t before = 1; at && before < field; before++) {
            at = memchr(at, delimiter, (size_t)(end - at));
            at = at ? at + 1 : NULL;
        }
        const char *last = at ? memchr(at, delimiter, (size_t)(end - at)) : NULL;
        starts[i] = at ? at - bytes : -1;
        stops[i] = last ? last - bytes : stops[i];
    }
    Py_END_ALLOW_THREADS
    return core_finish(&a, Py_NewRef(Py_None));
}

/* keep_lines(buffer, bounds, keep, out): copies the lines that are kept; returns the number of
   bytes copied. */
static PyObject *keep_lines(PyObject *module, PyObject *args) {
    Arguments a = core_arguments(args);
    const char *bytes = core_array(&a, "buffer", 1, -1, READ);
    Py_ssize_t size = a.items;
    const int64_t *bounds = core_array(&a, "bounds", 8, 1, READ);
    Py_ssize_t bound_count = a.items, copied = 0;
    const uint8_t *keep = core_array(&a, "keep", 1, -1, READ);
    Py_ssize_t count = a.items;
    core_require(&a, bound_count > count, "bounds: must have one more item than keep");
    core_require_spans(&a, bounds, bounds + 1, count, size);
    char *out = core_array(&a, "out", 1, -1, WRITE);
    core_require(&a, a.failed || a.items >= bounds[count] - bounds[0],
                 "out: must have room for all lines");
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count;) {
        /* Consecutive lines are copied at once. */
        Py_ssize_t first = i;
        while (i < count && keep[i]) {
            i++;
        }
        size_t length = (size_t)(bounds[i] - bounds[first]);
        memcpy(out + copied, bytes + bounds[first], length);
        copied += (Py_ssize_t)length;
        while (i < count && !keep[i]) {
            i++;
        }
    }
    Py_END_ALLOW_THREADS
    return core_finish(&a, PyLong_FromSsize_t(copied));
}

PyMethodDef core_lines_methods[] = {
    {"line_bounds", line_bounds, METH_VARARGS, "Find the starts of the lines in a buffer."},
    {"field_spans", field_spans, METH_VARARGS, "Narrow spans to one of their fields."},
    {"keep_lines", keep_lines, METH_VARARGS, "Copy selected lines."},
    {NULL, NULL, 0, NULL},
};
