/* Hash functions of keys as Python holds them. */
#ifndef LATELY_HASH_H
#define LATELY_HASH_H

#include "core.h"

#ifndef HASH_MANY
#define HASH_ELSEWHERE
#endif
#include "pure/hash.h"

/* Returns the hash functions of a Hash, or NULL with an error set. */
const Hash *hash_within(PyObject *object);

#endif
