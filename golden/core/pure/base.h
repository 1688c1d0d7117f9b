/* Shared by the files in pure/: C99 and C++ without Python, allocation or global state. */
#ifndef LATELY_BASE_H
#define LATELY_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The compiler builds these loops for each instruction set, and the C library selects one at the
   start. musl does not support this, and older compilers lack the last set. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(NO_CLONES)
#if (defined(__clang__) && __clang_major__ >= 16) || (!defined(__clang__) && __GNUC__ >= 12)
#define CLONES
#define WIDE __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#endif
#endif
#ifndef WIDE
#define WIDE
#endif

#if defined(__GNUC__)
#define ALWAYS static inline __attribute__((always_inline))
#define RARELY __attribute__((noinline, unused)) static
#define PREFETCH(address) __builtin_prefetch((address), 1)
/* Keeps the compiler from loading all operands of a bitwise chain before it combines them. */
#define IN_ORDER(value) __asm__("" : "+r"(value))
#else
#define ALWAYS static inline
#define RARELY static inline
#define PREFETCH(address) ((void)(address))
#define IN_ORDER(value) ((void)(value))
#endif

enum { NONE = 0, QUERY = 1, INSERT = 2, CHECK = 3, ALONE = 4, SHIFT = 4, CLEAR = 5, REMOVE = 8 };

static inline uint32_t rotate32(uint32_t value, unsigned amount) {
    return value << (amount & 31) | value >> (-amount & 31);
}

static inline uint64_t rotate64(uint64_t value, unsigned amount) {
    return value << (amount & 63) | value >> (-amount & 63);
}

/* Index of the lowest bit of a value; -1 if it is 0. */
ALWAYS int64_t lowest(uint64_t value) {
#if defined(__GNUC__)
    return value ? __builtin_ctzll(value) : -1;
#else
    int64_t index = value ? 0 : -1;
    for (; value && !(value & 1); value >>= 1) {
        index++;
    }
    return index;
#endif
}

#endif
