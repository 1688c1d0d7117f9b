/* Packets of a buffer: their headers and their keyed digests, as in `lately.golden.packets`. */
#include <stdlib.h>

#include "packets.h"
#include "pure/siphash.h"

enum { TOS = 1, TTL = 2, VLAN = 4, LAYER2 = 8, FRAME = 16 }; /* Field */
enum { NO_CHECKSUM = 32, NO_SEQUENCE = 64, NO_ID = 128, NO_RADIOTAP = 256 };

#define OTHER_LANE_LOW 0x13198A2E03707344
#define OTHER_LANE_HIGH 0x243F6A8885A308D3
#define FURTHER ((uint64_t)1 << 63)
#define FURTHER_TAG ((uint64_t)1 << 62)
#define LINK_RADIOTAP 127
#define HEAD 48 /* bytes, whole pairs of words, with the fields to hide in most packets */

typedef struct {
    const uint8_t *bytes;
    const int64_t *rows;
    Py_ssize_t size, count;
} Packets;

/* Reads a buffer, and offset, captured length, length on the line and link type of each packet. */
static Packets take_packets(Arguments *a) {
    Packets packets = {.bytes = core_array(a, "buffer", 1, -1, READ)};
    packets.size = a->items;
    packets.rows = core_array(a, "packets", 8, -1, READ);
    packets.count = a->items / 4;
    return packets;
}

/* Reads one packet; returns 0 if the packet is not inside the buffer. */
static int read_packet(const Packets *all, Py_ssize_t i, Packet *packet) {
    int64_t at = all->rows[i], captured = all->rows[all->count + i];
    packet->length = all->rows[2 * all->count + i];
    packet->link = all->rows[3 * all->count + i];
    packet->captured = captured;
    if (at < 0 || captured < 0 || at > all->size || captured > all->size - at ||
        captured > packet->length) {
        return 0;
    }
    packet->bytes = all->bytes + at;
    return 1;
}

/* Reads the types of tags and the tunnels that `search_tables` returned. */
static void take_search(Arguments *a, Search *search) {
    search->types = core_array(a, "types", 8, -1, READ);
    search->type_count = a->items;
    search->tunnels = core_array(a, "tunnels", 8, -1, READ);
    search->tunnel_count = a->items / 3;
}

static PyObject *finish_packets(Arguments *a, int inside) {
    core_require(a, inside, "packets: must be inside the buffer");
    return core_finish(a, a->failed ? NULL : Py_NewRef(Py_None));
}

/* Selects the compared part of a packet: `Comparison`. */
typedef struct {
    int fields;
    Search search;
    int64_t skip, first, mask_size;
    const uint8_t *mask;
    uint64_t low, high;
} Rule;

/* Buffer for a message that is changed beyond its head. */
typedef struct {
    uint8_t *bytes;
    int64_t size;
} Scratch;

/* The digested part: `Message`. `head` holds the first bytes, at most HEAD. */
typedef struct {
    const uint8_t *head, *bytes;
    int64_t size, length;
    uint64_t closing;
    int kind;
} Message;

typedef struct {
    SipState lanes[2];
    int64_t count;
} Words;

static void add_word(Words *words, uint64_t word) {
    sip_word(&words->lanes[words->count++ & 1], word);
}

static void add_tag(void *words, int tag) {
    add_word(words, FURTHER | FURTHER_TAG | (uint64_t)tag);
}

/* Zeros the fields of layer 4 that the digest leaves out. */
static void hide_layer4(uint8_t *layer3, int64_t size, int version, int fields) {
    int protocol, part;
    int64_t at = find_layer4(layer3, size, version, &protocol, &part);
    int tcp = protocol == 6, sctp = protocol == 132, has_sum = tcp || sctp || protocol == 17;
    int sum = tcp ? 16 : sctp ? 8 : 6, sum_end = sum + (sctp ? 4 : 2);
    for (int i = 0; at >= 0 && i < 20 && at + i < size; i++) {
        if ((fields & NO_CHECKSUM && has_sum && i >= sum && i < sum_end) ||
            (fields & NO_SEQUENCE && tcp && i >= 4 && i < 8)) {
            layer3[at + i] = 0;
        }
    }
}

/* Zeros the fields of a packet's layer 3 that the digest leaves out. */
static void hide(uint8_t *layer3, int64_t size, int version, int fields) {
    if (version == IP4) {
        layer3[1] = fields & TOS ? layer3[1] : 0;
        layer3[8] = fields & TTL ? layer3[8] : 0;
        layer3[10] = layer3[11] = 0;
        layer3[4] = fields & NO_ID ? 0 : layer3[4];
        layer3[5] = fields & NO_ID ? 0 : layer3[5];
    } else if (version == IP6) {
        layer3[0] &= fields & TOS ? 0xFF : 0xF0;
        layer3[1] &= fields & TOS ? 0xFF : 0x0F;
        layer3[7] = fields & TTL ? layer3[7] : 0;
    }
    if (fields & (NO_CHECKSUM | NO_SEQUENCE) && version != CONTROL) {
        hide_layer4(layer3, size, version, fields);
    }
}

/* Digests the words of a message, without its further tags. */
static Words take_words(const Message *m, uint64_t low, uint64_t high) {
    SipState a = sip_start(low, high);
    SipState b = sip_start(low ^ OTHER_LANE_LOW, high ^ OTHER_LANE_HIGH);
    int64_t at = 0;
    for (; at + 16 <= m->size && at < HEAD; at += 16) {
        sip_word(&a, sip_load(m->head + at));
        sip_word(&b, sip_load(m->head + at + 8));
    }
    for (; at + 16 <= m->size; at += 16) {
        sip_word(&a, sip_load(m->bytes + at));
        sip_word(&b, sip_load(m->bytes + at + 8));
    }
    Words words = {{a, b}, at / 8};
    uint8_t last[16] = {0};
    int64_t rest = m->size - at, count = at / 8 + (at ? (rest + 7) / 8 : 2);
    memcpy(last, (at < HEAD ? m->head : m->bytes) + at, (size_t)rest);
    for (int i = 0; words.count < count; i += 8) {
        add_word(&words, sip_load(last + i));
    }
    if (m->length > m->size) {
        add_word(&words, (uint64_t)m->length);
    }
    if (m->kind) {
        add_word(&words, FURTHER | (uint64_t)m->kind);
    }
    return words;
}

static uint64_t end_words(Words *words, uint64_t closing) {
    for (int lane = 0; lane < 2; lane++) {
        uint64_t length = (uint64_t)(8 * ((words->count + 1 - lane) / 2) + 7);
        sip_word(&words->lanes[lane], closing | length << 56);
    }
    return sip_end(&words->lanes[0]) ^ sip_end(&words->lanes[1]);
}

/* Length of the radiotap header that the digest leaves out; 0 if there is none. */
static int64_t radiotap(const Packet *packet, int fields) {
    if (packet->link != LINK_RADIOTAP || !(fields & NO_RADIOTAP) || packet->captured < 4) {
        return 0;
    }
    int64_t size = packet->bytes[2] | packet->bytes[3] << 8;
    return size <= packet->captured ? size : 0;
}

/* Copies a message to the scratch buffer; returns NULL if out of memory. */
static uint8_t *copy_message(Scratch *scratch, const Message *m) {
    if (scratch->size < m->size) {
        free(scratch->bytes);
        scratch->size = 2 * m->size;
        scratch->bytes = malloc((size_t)scratch->size);
    }
    if (scratch->bytes) {
        memcpy(scratch->bytes, m->bytes, (size_t)m->size);
    } else {
        scratch->size = 0;
    }
    return scratch->bytes;
}

/* Cuts a message down to the compared part. */
static void cut_message(Message *m, const Rule *rule) {
    if (m->length > rule->skip) {
        int64_t skipped = rule->skip < m->size ? rule->skip : m->size;
        m->bytes += skipped;
        m->size -= skipped;
        m->length -= rule->skip;
    }
    if (rule->first >= 0) {
        m->size = m->size < rule->first ? m->size : rule->first;
        m->length = m->length < rule->first ? m->length : rule->first;
    }
    m->head = m->bytes;
}

/* Returns 0 if out of memory. */
static int digest_packet(const Packet *packet, const Layers *at, const Rule *rule, Scratch *scratch,
                         uint64_t *digest) {
    int fields = rule->fields, whole = fields & FRAME || at->version == OTHER;
    int64_t first = whole ? radiotap(packet, fields) : fields & LAYER2 ? 0 : at->begin;
    int64_t layer3 = at->begin - first, deep = fields & (NO_CHECKSUM | NO_SEQUENCE);
    uint8_t head[HEAD] = {0};
    Message m = {.bytes = packet->bytes + first, .size = packet->captured - first,
                 .length = packet->length - first};
    if (!whole) {
        m.size = at->end - first, m.length = at->line_end - first, m.kind = at->kind;
        m.closing = (uint64_t)(at->version / 2) << 16 | (fields & VLAN ? at->tags : 0);
    }
    m.head = m.bytes;
    int special = rule->mask_size || rule->skip || rule->first >= 0;
    if (!whole && !special && !deep && layer3 + 12 <= HEAD) {
        memcpy(head, m.bytes, (size_t)(m.size < HEAD ? m.size : HEAD));
        hide(head + layer3, 0, at->version, fields);
        m.head = head;
    } else if (!whole || rule->mask_size) {
        uint8_t *bytes = copy_message(scratch, &m);
        if (!bytes && m.size) {
            return 0;
        }
        if (!whole) {
            hide(bytes + layer3, m.size - layer3, at->version, fields);
        }
        for (int64_t i = 0; i < rule->mask_size && i < m.size; i++) {
            bytes[i] &= rule->mask[i];
        }
        m.head = m.bytes = bytes;
    }
    if (special) {
        cut_message(&m, rule);
    }
    Words words = take_words(&m, rule->low, rule->high);
    if (!whole && fields & VLAN && at->tag_count > CLOSING_TAGS) {
        further_tags(packet, &rule->search, at, add_tag, &words);
    }
    *digest = end_words(&words, m.closing | ((uint64_t)m.size & 0xFFFF));
    return 1;
}

/* packet_digests(buffer, packets, (fields, reach, skip, first, types, tunnels, mask), low, high,
   versions, faults, digests): skips `skip` bytes, and digests the first bytes, all if -1. */
static PyObject *packet_digests(PyObject *module, PyObject *args) {
    int inside = 1, enough = 1;
    Rule rule;
    Scratch scratch = {NULL, 0};
    Arguments a = core_arguments(args);
    Packets packets = take_packets(&a);
    rule.fields = (int)core_integer(&a);
    rule.search.reach = (int)core_integer(&a);
    rule.skip = core_integer(&a);
    rule.first = core_integer(&a);
    take_search(&a, &rule.search);
    rule.mask = core_array(&a, "mask", 1, -1, READ);
    rule.mask_size = a.items;
    rule.low = core_word(&a);
    rule.high = core_word(&a);
    uint8_t *versions = core_array(&a, "versions", 1, packets.count, WRITE);
    uint8_t *faults = core_array(&a, "faults", 1, packets.count, WRITE);
    uint64_t *digests = core_array(&a, "digests", 8, packets.count, WRITE);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    Packet packet;
    for (Py_ssize_t i = 0;
         i < packets.count && enough && (inside = read_packet(&packets, i, &packet)); i++) {
        Layers at = find_layers(&packet, &rule.search);
        versions[i] = (uint8_t)at.version;
        faults[i] = (uint8_t)at.faults;
        enough = digest_packet(&packet, &at, &rule, &scratch, &digests[i]);
    }
    free(scratch.bytes);
    Py_END_ALLOW_THREADS
    return enough ? finish_packets(&a, inside) : core_finish(&a, PyErr_NoMemory());
}

/* packet_headers(buffer, packets, reach, types, tunnels, table): writes rows like `Headers`. */
static PyObject *packet_headers(PyObject *module, PyObject *args) {
    int inside = 1;
    Search search;
    Arguments a = core_arguments(args);
    Packets packets = take_packets(&a);
    search.reach = (int)core_integer(&a);
    take_search(&a, &search);
    int64_t *table = core_array(&a, "table", 8, 6 * packets.count, WRITE);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    Packet packet;
    for (Py_ssize_t i = 0; i < packets.count && (inside = read_packet(&packets, i, &packet)); i++) {
        Layers at = find_layers(&packet, &search);
        int protocol, part;
        int64_t layer4 = find_layer4(packet.bytes + at.begin, at.end - at.begin, at.version,
                                     &protocol, &part);
        int64_t row[] = {at.version, at.begin, at.end, at.faults, protocol,
                         layer4 < 0 ? -1 : at.begin + layer4};
        for (int column = 0; column < 6; column++) {
            table[column * packets.count + i] = row[column];
        }
    }
    Py_END_ALLOW_THREADS
    return finish_packets(&a, inside);
}

PyMethodDef core_packets_methods[] = {
    {"packet_digests", packet_digests, METH_VARARGS, "Compute the digests of packets."},
    {"packet_headers", packet_headers, METH_VARARGS, "Find the headers of packets."},
    {NULL, NULL, 0, NULL},
};
