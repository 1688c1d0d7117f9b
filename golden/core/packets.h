/* Layers of packets: `lately.golden.packets.packet_layers`. */
#ifndef LATELY_PACKETS_H
#define LATELY_PACKETS_H

#include "core.h"

enum { MALFORMED = 1, CUT = 2 };                   /* Fault */
enum { OTHER = 0, CONTROL = 2, IP4 = 4, IP6 = 6 }; /* Version */
enum { HARDWARE = 0, LAYER2_ONLY = 1, INNER = 2 }; /* Reach */

#define CLOSING_TAGS 3

typedef struct {
    const uint8_t *bytes;
    int64_t captured, length, link;
} Packet;

/* Options of the search for layer 3: the reach, additional types of tags, and additional tunnels,
   each with its port, the number of bytes to skip, and whether it carries IP. */
typedef struct {
    int reach;
    const int64_t *types, (*tunnels)[3];
    Py_ssize_t type_count, tunnel_count;
} Search;

typedef struct {
    int version, faults, kind;
    int64_t begin, end, line_end, tag_count;
    uint64_t tags; /* as in the closing bytes: number of tags, then each tag */
} Layers;

static inline int number(const uint8_t *at) { return at[0] << 8 | at[1]; }

Layers find_layers(const Packet *packet, const Search *search);

/* Calls a function with each VLAN identifier before layer 3 that does not fit into `tags`. */
void further_tags(const Packet *packet, const Search *search, const Layers *layers,
                  void (*add)(void *state, int tag), void *state);

/* Offset of layer 4 in layer 3 of `size` bytes, or -1; `protocol` becomes its protocol, or -1. */
int64_t find_layer4(const uint8_t *layer3, int64_t size, int version, int *protocol, int *part);

#endif
