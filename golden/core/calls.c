/* Calls for single keys: the lock of a filter, the base of filters, and their methods.

   A method performs the operation here if the filter is compiled, no thread holds the filter's
   lock, and the arguments are one key and perhaps a time, of common types. Otherwise it calls the
   Python method, which acquires the lock. An operation on one key is atomic, because the
   interpreter lock is held from the last check of the filter's lock to the end of the operation. */
#include <math.h>

#include "core.h"

#include <structmember.h>

#define PYTHON "_python_" /* prefix of the name of a Python method */
#define CHECK_NEW 19      /* CHECK of a single key that is not inserted if it is reported */

/* Lock: like threading.RLock, but C sees whether it is held. */

typedef struct {
    PyObject_HEAD
    PyThread_type_lock lock;
    unsigned long owner;
    long held;
} Lock;

static PyTypeObject *lock_type, *base_type;
PyTypeObject *engine_type;

static PyObject *lock_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    Lock *self = (Lock *)PyType_GenericAlloc(type, 0);
    if (self && !(self->lock = PyThread_allocate_lock())) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void lock_dealloc(PyObject *self) {
    if (((Lock *)self)->lock) {
        PyThread_free_lock(((Lock *)self)->lock);
    }
    core_free(self);
}

static int is_owned(const Lock *self) {
    return self->held && self->owner == PyThread_get_thread_ident();
}

static PyObject *lock_enter(PyObject *object, PyObject *blocking) {
    Lock *self = (Lock *)object;
    if (!is_owned(self)) {
        if (!PyThread_acquire_lock(self->lock, NOWAIT_LOCK)) {
            if (blocking == Py_False) {
                Py_RETURN_FALSE;
            }
            Py_BEGIN_ALLOW_THREADS
            PyThread_acquire_lock(self->lock, WAIT_LOCK);
            Py_END_ALLOW_THREADS
        }
        self->owner = PyThread_get_thread_ident();
    }
    self->held++;
    Py_RETURN_TRUE;
}

static PyObject *lock_is_owned(PyObject *self, PyObject *nothing) {
    return PyBool_FromLong(is_owned((Lock *)self));
}

static PyObject *lock_exit(PyObject *object, PyObject *args) {
    Lock *self = (Lock *)object;
    if (!is_owned(self)) {
        PyErr_SetString(PyExc_RuntimeError, "lock: not held by this thread");
        return NULL;
    }
    if (!--self->held) {
        PyThread_release_lock(self->lock);
    }
    Py_RETURN_NONE;
}

static PyMethodDef lock_methods[] = {
    {"__enter__", lock_enter, METH_NOARGS, "Wait for the lock, unless this thread holds it."},
    {"__exit__", lock_exit, METH_VARARGS, "Release the lock."},
    {"acquire", lock_enter, METH_O, "Acquire the lock; if `blocking` is False, only if free."},
    {"release", lock_exit, METH_NOARGS, "Release the lock."},
    {"_is_owned", lock_is_owned, METH_NOARGS, "Whether this thread holds the lock."},
    {NULL, NULL, 0, NULL},
};

/* Base of filters */

typedef struct {
    PyObject_HEAD
    PyObject *lock;   /* a Lock, or another lock in tests */
    PyObject *engine; /* an Engine, or NULL */
} Base;

static PyMemberDef base_members[] = {
    {"_lock", T_OBJECT, offsetof(Base, lock), 0, "Lock that public methods hold."},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *get_engine(PyObject *self, void *nothing) {
    PyObject *engine = ((Base *)self)->engine;
    return Py_NewRef(engine ? engine : Py_None);
}

static int set_engine(PyObject *self, PyObject *engine, void *nothing) {
    PyObject *before = ((Base *)self)->engine;
    if (!engine || (engine != Py_None && !PyObject_TypeCheck(engine, engine_type))) {
        PyErr_SetString(PyExc_TypeError, "_engine: must be an Engine or None");
        return -1;
    }
    ((Base *)self)->engine = engine == Py_None ? NULL : Py_NewRef(engine);
    Py_XDECREF(before);
    return 0;
}

static PyGetSetDef base_getset[] = {
    {"_engine", get_engine, set_engine, "Compiled state, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static void base_dealloc(PyObject *self) {
    Py_CLEAR(((Base *)self)->lock);
    Py_CLEAR(((Base *)self)->engine);
    core_free(self);
}

/* Engines */

Engine *engine_start(PyTypeObject *type, PyObject *args,
                     int64_t (*perform_key)(Engine *, int, const uint64_t *)) {
    Engine *engine = (Engine *)PyType_GenericAlloc(type, 0);
    if (engine) {
        engine->arguments = core_arguments(args);
        engine->tuple = Py_NewRef(args);
        engine->perform_key = perform_key;
    }
    return engine;
}

PyObject *engine_end(Engine *engine) {
    if (core_ready(&engine->arguments)) {
        return (PyObject *)engine;
    }
    Py_DECREF((PyObject *)engine);
    return NULL;
}

static void engine_dealloc(PyObject *self) {
    Engine *engine = (Engine *)self;
    core_finish(&engine->arguments, NULL);
    Py_XDECREF(engine->tuple);
    PyMem_Free(engine->memory);
    core_free(self);
}

int engine_add_type(PyObject *module, PyTypeObject **type, const char *name, size_t size,
                    newfunc new, PyMethodDef *methods) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type}, {Py_tp_dealloc, engine_dealloc},
                           {Py_tp_new, new}, {Py_tp_methods, methods}, {0, NULL}};
    return core_add_type(module, type, name, size, slots);
}

void engine_take_hash(Engine *engine, PyObject *object) {
    engine->hash = object ? hash_of(object) : NULL;
    engine->arguments.failed |= !engine->hash;
}

Operations engine_operations(const Engine *engine, Arguments *a) {
    Operations o = {.codes = NULL};
    int single = a->next < a->given && PyLong_Check(a->objects[a->next]);
    o.code = single ? (int)core_integer(a) : 0;
    o.codes = single ? NULL : core_array(a, "operations", 1, -1, READ);
    Py_ssize_t codes = a->items;
    o.keys = core_array(a, "keys", 8, -1, READ);
    o.count = a->items / engine->hash->words;
    core_require(a, single || codes >= o.count, "operations: must have a code for each key");
    return o;
}

/* digest_by(keys): sets the digest of text to SipHash under the first key, or to BLAKE2b if there
   is no key. */
static PyObject *digest_by(PyObject *self, PyObject *args) {
    Engine *engine = (Engine *)self;
    Arguments a = core_arguments(args);
    const Secret *key = core_array(&a, "keys", 8, -1, READ);
    if (core_ready(&a)) {
        engine->digest = a.items >= 2 ? SIPHASH : BLAKE2B;
        engine->digest_key = a.items >= 2 ? *key : (Secret){0};
    }
    return core_finish(&a, a.failed ? NULL : Py_NewRef(Py_None));
}

/* Queries a key, and inserts it unless it is reported; returns its age. */
static int64_t check_new(Engine *engine, const uint64_t *key) {
    int64_t age = engine->perform_key(engine, QUERY, key);
    if (age < 0) {
        engine->perform_key(engine, INSERT, key);
    }
    return age;
}

/* check_and_insert_new(keys, seen, times): inserts each key that is not reported. The filter holds
   its lock and counts everything except late times. Only a timed engine has times. */
static PyObject *engine_check_new(PyObject *self, PyObject *args) {
    Engine *engine = (Engine *)self;
    Arguments a = core_arguments(args);
    const uint64_t *keys = core_array(&a, "keys", 8, -1, READ);
    Py_ssize_t words = engine->hash->words, count = a.items / words;
    uint8_t *seen = core_array(&a, "seen", 1, count, WRITE);
    const int64_t *times = engine->timed ? core_array(&a, "times", 8, count, READ) : NULL;
    core_require(&a, !engine->reads, CORE_READS);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        engine->now = times ? times[i] : 0;
        seen[i] = check_new(engine, keys + i * words) >= 0;
    }
    Py_END_ALLOW_THREADS
    return core_finish(&a, Py_NewRef(Py_None));
}

static PyMethodDef engine_methods[] = {
    {"digest_by", digest_by, METH_VARARGS, "Set the SipHash keys of the digest of text."},
    {"check_and_insert_new", engine_check_new, METH_VARARGS, "Insert keys that are not reported."},
    {NULL, NULL, 0, NULL},
};

/* Returns the engine of a filter with a free lock, or NULL. */
static Engine *free_engine(const Base *self) {
    if (!self->engine || !self->lock || Py_TYPE(self->lock) != lock_type ||
        ((Lock *)self->lock)->held) {
        return NULL;
    }
    return (Engine *)self->engine;
}

/* From Python: functions that convert further types of single keys to an int, str or bytes, the
   type datetime, the start of 1970, a microsecond, and the minimum time of a clock since 1970. */
static PyObject *forms, *datetime_type, *epoch, *microsecond;
static PyObject *clock_name, *ahead_name, *given_name; /* names of attributes */
static long long since_1970;

static PyObject *take_forms(PyObject *module, PyObject *args) {
    Py_INCREF(args); /* keeps these objects */
    return PyArg_ParseTuple(args, "O!OOOL", &PyDict_Type, &forms, &datetime_type, &epoch,
                            &microsecond, &since_1970)
               ? Py_NewRef(Py_None)
               : NULL;
}

/* Function for the type of an object; NULL without an error if there is none. */
static PyObject *form_of(PyObject *object) {
    return forms ? PyDict_GetItemWithError(forms, (PyObject *)Py_TYPE(object)) : NULL;
}

PyObject *plain_key(PyObject *object) {
    PyObject *form, *plain = NULL;
    if (PyLong_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
        PyTuple_Check(object)) {
        return Py_NewRef(object);
    }
    if (PyUnicode_Check(object)) {
        plain = PyUnicode_FromObject(object);
    } else if (PyLong_Check(object)) {
        plain = PyBool_Check(object) ? NULL : PyNumber_Long(object);
    } else if ((form = form_of(object))) {
        plain = PyObject_CallFunctionObjArgs(form, object, NULL);
    }
    PyErr_Clear(); /* the Python method reports the error */
    return plain;
}

/* Converts an integer to a key; a negative integer becomes its two's complement. Returns 0 if it is
   out of range. */
static int integer_key(PyObject *object, Py_ssize_t key_bits, uint64_t *key) {
    uint64_t mask = key_bits < 64 ? ((uint64_t)1 << key_bits) - 1 : ~(uint64_t)0;
    *key = PyLong_AsUnsignedLongLong(object);
    if (*key != (uint64_t)-1 || !PyErr_Occurred()) {
        return *key <= mask;
    }
    PyErr_Clear();
    int64_t number = PyLong_AsLongLong(object);
    if (PyErr_Occurred() || number < -(int64_t)(mask >> 1) - 1) {
        PyErr_Clear();
        return 0;
    }
    *key = (uint64_t)number & mask;
    return 1;
}

/* Converts an int, str, bytes or tuple to a key of one word; returns 0 if the Python method is
   needed, -1 on error. */
static int convert_key(Base *self, const Engine *engine, PyObject *plain, const Text *text,
                       uint64_t *key) {
    const uint8_t *bytes = text->bytes;
    Py_ssize_t count = bytes ? text->count : 0;
    if (PyLong_CheckExact(plain)) {
        return integer_key(plain, engine->hash->key_bits, key);
    }
    int convertible = bytes || text_bytes(plain, &bytes, &count);
    if (convertible && !engine->digest) {
        PyObject *done = PyObject_CallMethod((PyObject *)self, "_lend_digest", NULL);
        if (!done) {
            return -1;
        }
        Py_DECREF(done);
        convertible = free_engine(self) == engine && engine->digest; /* another thread may run */
    }
    if (convertible) {
        *key = text_key(bytes, count, engine);
    }
    return convertible;
}

/* Time of an operation, from the caller or from the clock of the filter. */
typedef struct {
    PyObject *given; /* NULL if the caller gave no time */
    int is_optional; /* whether a filter without a clock uses the latest time by default */
    int64_t now;
    int is_number;   /* whether the caller gave a number, which counts from the zero of the clock */
} Time;

static int is_time(int64_t time) { return time >= 0 && !(time >> 62); }

static int integer_time(PyObject *time, int64_t *now) {
    *now = time && PyLong_CheckExact(time) ? PyLong_AsLongLong(time) : -1;
    PyErr_Clear();
    return is_time(*now);
}

/* Converts an integer, and with a clock also seconds or a date, to nanoseconds; returns 0 if the
   Python method is needed. */
static int convert_time(Time *time, int clocked) {
    PyObject *given = time->given, *passed = NULL, *whole = NULL;
    time->is_number = 1;
    if (clocked && PyFloat_Check(given)) {
        double seconds = PyFloat_AsDouble(given), below = floor(seconds);
        if (!(below >= 0 && below < (double)((int64_t)1 << 62) / 1e9 - 1)) {
            return 0;
        }
        time->now = (int64_t)below * 1000000000 + (int64_t)rint((seconds - below) * 1e9);
        return 1;
    }
    if (clocked && (PyObject *)Py_TYPE(given) == datetime_type) {
        time->is_number = 0;
        passed = PyNumber_Subtract(given, epoch);
        whole = passed ? PyNumber_FloorDivide(passed, microsecond) : NULL;
        Py_XDECREF(passed);
        int valid = integer_time(whole, &time->now) && time->now < ((int64_t)1 << 62) / 1000;
        Py_XDECREF(whole);
        PyErr_Clear();
        time->now = valid ? time->now * 1000 : 0;
        return valid;
    }
    /* Dates without time can be keys, but not times. */
    int integer = PyLong_Check(given) || form_of(given) == (PyObject *)&PyLong_Type;
    whole = integer ? plain_key(given) : NULL;
    int valid = integer_time(whole, &time->now);
    Py_XDECREF(whole);
    return valid;
}

/* Reads an attribute that is an integer, or None, which gives -1; returns 0 for another value. */
static int read_attribute(Base *self, PyObject *name, int64_t *number) {
    PyObject *value = PyObject_GetAttr((PyObject *)self, name);
    int valid = value == Py_None || integer_time(value, number);
    *number = value == Py_None ? -1 : *number;
    Py_XDECREF(value);
    PyErr_Clear();
    return valid;
}

/* Determines the time of an operation; returns 0 if the Python method is needed. */
static int find_time(Base *self, Time *time, int inserts) {
    int64_t now = 0, limit;
    PyObject *clock = PyObject_GetAttr((PyObject *)self, clock_name);
    int clocked = clock != Py_None;
    if (!clock || (!clocked && !time->given && !time->is_optional)) {
        Py_XDECREF(clock);
        PyErr_Clear();
        return 0;
    }
    PyObject *reading = clocked ? PyObject_CallNoArgs(clock) : NULL;
    int valid = !clocked || integer_time(reading, &now);
    Py_XDECREF(reading);
    Py_DECREF(clock);
    PyErr_Clear();
    if (!valid || !time->given) {
        time->now = now;
        return valid;
    }
    if (!convert_time(time, clocked)) {
        return 0;
    }
    if (!clocked) {
        return 1;
    }
    if ((time->is_number && now >= since_1970 && time->now < since_1970) ||
        (inserts && (!read_attribute(self, ahead_name, &limit) ||
                     (limit >= 0 && time->now - now > limit)))) {
        return 0;
    }
    /* From now on, reports use times from the caller. */
    if (inserts && PyObject_SetAttr((PyObject *)self, given_name, Py_True) < 0) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

/* Performs an operation on one key; returns 0 if the Python method is needed, -1 on error. */
static int perform_one(Base *self, int code, PyObject *object, Time *time, int64_t *age) {
    Text text;
    Engine *engine = free_engine(self);
    int timed = engine && engine->timed;
    uint64_t key;
    text.bytes = NULL;
    /* Everything that may run Python code comes first. */
    PyObject *plain = plain_key(object);
    int ready = plain && engine && timed >= (time->given != NULL) && engine->hash->words == 1 &&
                !(engine->reads && code != QUERY);
    ready = ready && (!PyTuple_Check(plain) || encode_tuple(plain, &text)) &&
            (!timed || find_time(self, time, code & INSERT)) && free_engine(self) == engine;
    ready = ready ? convert_key(self, engine, plain, &text, &key) : 0;
    if (text.bytes) {
        free_text(&text);
    }
    Py_XDECREF(plain);
    if (ready <= 0) {
        return ready;
    }
    engine->now = time->now;
    *age = code == CHECK_NEW ? check_new(engine, &key) : engine->perform_key(engine, code, &key);
    if (code != QUERY) {
        engine->counts[0]++;
        engine->counts[1] += code != CHECK_NEW || *age < 0;
        engine->counts[2] += code != INSERT && *age >= 0;
    }
    return 1;
}

static PyObject *call_python(PyObject *self, const char *name, PyObject *const *args,
                             Py_ssize_t count, PyObject *names) {
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    PyObject *method = PyObject_GetAttrString(self, name), *result = NULL;
    PyObject *tuple = PyTuple_New(count), *options = named ? PyDict_New() : NULL;
    if (!method || !tuple || (named && !options)) {
        goto end;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTuple_SetItem(tuple, i, Py_NewRef(args[i]));
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        if (PyDict_SetItem(options, PyTuple_GetItem(names, i), args[count + i]) < 0) {
            goto end;
        }
    }
    result = PyObject_Call(method, tuple, options);
end:
    Py_XDECREF(method);
    Py_XDECREF(tuple);
    Py_XDECREF(options);
    return result;
}

/* Parses the options `now`, and `refresh` of a check; returns the code of the operation, or -1 for
   other arguments. */
static int parse_options(int code, PyObject *const *args, Py_ssize_t count, PyObject *names,
                         Time *time) {
    if (count < 1 || count > 2) {
        return -1;
    }
    time->given = count > 1 ? args[1] : NULL;
    for (Py_ssize_t i = 0, named = names ? PyTuple_Size(names) : 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(names, i), *value = args[count + i];
        if (count == 1 && PyUnicode_CompareWithASCIIString(name, "now") == 0) {
            time->given = value;
        } else if ((code == CHECK || code == CHECK_NEW) && PyBool_Check(value) &&
                   PyUnicode_CompareWithASCIIString(name, "refresh") == 0) {
            code = value == Py_True ? CHECK : CHECK_NEW;
        } else {
            return -1;
        }
    }
    time->given = time->given == Py_None ? NULL : time->given;
    return code;
}

/* Methods for single keys: the operation code, and the conversion of the age to a result. */
#define METHOD(function, operation, python, result)                                              \
    static PyObject *function(PyObject *self, PyObject *const *args, Py_ssize_t count,           \
                              PyObject *names) {                                                 \
        int64_t age;                                                                             \
        Time time = {.is_optional = strcmp(python, "__contains__") == 0};                        \
        int code = parse_options(operation, args, count, names, &time);                          \
        int done = code < 0 ? 0 : perform_one((Base *)self, code, args[0], &time, &age);         \
        if (done < 0) {                                                                          \
            return NULL;                                                                         \
        }                                                                                        \
        return done ? (result) : call_python(self, PYTHON python, args, count, names);           \
    }

METHOD(query_one, QUERY, "query", PyBool_FromLong(age >= 0))
METHOD(contains_one, QUERY, "__contains__", PyBool_FromLong(age >= 0))
METHOD(check_one, CHECK, "check_and_insert", PyBool_FromLong(age >= 0))
METHOD(insert_one, INSERT, "insert", Py_NewRef(Py_None))
METHOD(add_one, INSERT, "add", Py_NewRef(Py_None))
METHOD(age_one, QUERY, "age", PyLong_FromLongLong(age))

#define CALL(name, function)                                                                     \
    {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS, NULL}

static const PyMethodDef calls[] = {
    CALL("query", query_one), CALL("__contains__", contains_one),
    CALL("check_and_insert", check_one), CALL("insert", insert_one),
    CALL("add", add_one), CALL("age", age_one),
};

/* method(class, name, doc): a method for single keys, which calls `_python_NAME` for others. */
static PyObject *method_of(PyObject *module, PyObject *args) {
    PyObject *kind, *name, *doc;
    if (!PyArg_ParseTuple(args, "OUU", &kind, &name, &doc)) {
        return NULL;
    }
    if (!PyType_Check(kind) || !PyType_IsSubtype((PyTypeObject *)kind, base_type)) {
        PyErr_SetString(PyExc_TypeError, "method: must be of a subclass of Base");
        return NULL;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (PyUnicode_CompareWithASCIIString(name, calls[i].ml_name) == 0) {
            /* The definition and its text are never freed, because the class may live as long as
               the process. */
            PyMethodDef *definition = PyMem_Malloc(sizeof *definition);
            const char *text = PyUnicode_AsUTF8AndSize(Py_NewRef(doc), NULL);
            if (!definition || !text) {
                return PyErr_NoMemory();
            }
            *definition = calls[i];
            definition->ml_doc = text;
            return PyDescr_NewMethod((PyTypeObject *)kind, definition);
        }
    }
    PyErr_Format(PyExc_ValueError, "method: there is none for single keys named %U", name);
    return NULL;
}

static PyMethodDef functions[] = {
    {"method", method_of, METH_VARARGS, "Make a method for single keys."},
    {"take_forms", take_forms, METH_VARARGS, "Set the conversions for types of single keys."},
    {NULL, NULL, 0, NULL},
};

int core_add_calls(PyObject *module) {
    clock_name = PyUnicode_InternFromString("_clock");
    ahead_name = PyUnicode_InternFromString("_max_ahead");
    given_name = PyUnicode_InternFromString("_event_times");
    PyType_Slot lock[] = {{Py_tp_new, lock_new},
                          {Py_tp_dealloc, lock_dealloc},
                          {Py_tp_methods, lock_methods},
                          {0, NULL}};
    PyType_Slot base[] = {{Py_tp_dealloc, base_dealloc},
                          {Py_tp_members, base_members},
                          {Py_tp_getset, base_getset},
                          {0, NULL}};
    PyType_Slot engine[] = {{Py_tp_methods, engine_methods}, {0, NULL}};
    int error =
        core_add_type(module, &lock_type, "lately.golden._core.Lock", sizeof(Lock), lock) < 0 ||
        core_add_type(module, &base_type, "lately.golden._core.Base", sizeof(Base), base) < 0 ||
        core_add_type(module, &engine_type, "lately.golden._core.Engine", sizeof(Engine),
                      engine) < 0;
    return error || !clock_name || !ahead_name || !given_name
               ? -1
               : PyModule_AddFunctions(module, functions);
}
