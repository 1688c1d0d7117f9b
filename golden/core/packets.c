/* Packets of a buffer: their headers and their keyed digests, as in `lately.golden.packets`. */
#include "core.h"
#include "siphash.h"

enum { MALFORMED = 1, CUT = 2 };                             /* Fault */
enum { OTHER = 0, IP4 = 4, IP6 = 6 };                        /* Version */
enum { TOS = 1, TTL = 2, VLAN = 4, LAYER2 = 8, FRAME = 16 }; /* Field */

#define OTHER_LANE_LOW 0x13198A2E03707344
#define OTHER_LANE_HIGH 0x243F6A8885A308D3
#define MOST_TAGS 3
#define MOST_EXTENSIONS 16
#define HEAD 48 /* bytes, whole pairs of words, that hold every mutable field of a packet */

typedef struct {
    const uint8_t *bytes;
    int64_t captured, length, link;
} Packet;

typedef struct {
    int version, faults;
    int64_t begin, end, line_end;
    uint64_t tags; /* as in the closing bytes: their number, then each tag */
} Layers;

typedef struct {
    const uint8_t *bytes;
    const int64_t *rows;
    Py_ssize_t size, count;
} Packets;

/* Takes a buffer, and the places, captured bytes, bytes on the line and links of its packets. */
static int take_packets(Buffers *all, PyObject *buffer, PyObject *rows, Packets *packets) {
    packets->bytes = core_buffer(all, buffer, 1, -1, 0, "buffer");
    packets->rows = packets->bytes ? core_buffer(all, rows, 8, -1, 0, "packets") : NULL;
    if (!packets->rows) {
        return 0;
    }
    packets->size = core_items(all, 0);
    packets->count = core_items(all, 1) / 4;
    return 1;
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

static PyObject *finish_packets(Buffers *all, int inside) {
    if (!inside) {
        PyErr_SetString(PyExc_ValueError, "packets: must be inside the buffer");
        return core_finish(all, NULL);
    }
    return core_finish(all, Py_NewRef(Py_None));
}

static int number(const uint8_t *at) { return at[0] << 8 | at[1]; }

/* Bytes before layer 3, and the place of the EtherType or -1; returns 0 for an unknown link. */
static int link_header(int64_t link, int64_t *begin, int64_t *place) {
    switch (link) {
    case 1: *begin = 14, *place = 12; return 1;
    case 113: *begin = 16, *place = 14; return 1;
    case 276: *begin = 20, *place = 0; return 1;
    case 0: case 108: *begin = 4, *place = -1; return 1;
    case 12: case 14: case 101: case 228: case 229: *begin = 0, *place = -1; return 1;
    default: return 0;
    }
}

static int is_tag(int kind) { return kind == 0x8100 || kind == 0x88A8 || kind == 0x9100; }

/* Finds the begin of layer 3, which is -1 if bytes are missing, its version, and the tags. */
static void find_network(const Packet *packet, Layers *found) {
    int64_t place;
    *found = (Layers){.version = OTHER};
    if (!link_header(packet->link, &found->begin, &place)) {
        return;
    }
    if (packet->captured < found->begin + (place < 0)) {
        found->begin = -1;
        return;
    }
    if (place < 0) {
        int version = packet->bytes[found->begin] >> 4;
        found->version = version == IP4 || version == IP6 ? version : OTHER;
        return;
    }
    int kind = number(packet->bytes + place);
    unsigned tags = 0;
    for (; tags < MOST_TAGS && is_tag(kind); tags++, found->begin += 4) {
        if (packet->captured < found->begin + 4) {
            found->begin = -1;
            return;
        }
        const uint8_t *tag = packet->bytes + found->begin;
        found->tags |= (uint64_t)(number(tag) & 0xFFF) << (20 + 12 * tags);
        kind = number(tag + 2);
    }
    found->tags |= (uint64_t)tags << 18;
    found->version = kind == 0x0800 ? IP4 : kind == 0x86DD ? IP6 : OTHER;
}

static Layers find_layers(const Packet *packet) {
    int cut = packet->captured < packet->length ? CUT : 0;
    Layers found, other = {OTHER, cut, 0, packet->captured, packet->length, 0};
    find_network(packet, &found);
    if (found.begin >= 0 && found.version == OTHER) {
        return other;
    }
    if (found.begin < 0 || packet->captured < found.begin + (found.version == IP4 ? 20 : 40)) {
        other.faults = cut ? cut : MALFORMED;
        return other;
    }
    const uint8_t *layer3 = packet->bytes + found.begin;
    int right = layer3[0] >> 4 == found.version;
    int64_t size;
    if (found.version == IP4) {
        int header = 4 * (layer3[0] & 15);
        size = number(layer3 + 2);
        right = right && header >= 20 && (size == 0 || size >= header);
    } else {
        size = number(layer3 + 4);
        size = size || layer3[6] == 59 ? 40 + size : 0;
    }
    if (!right) {
        other.faults |= MALFORMED;
        return other;
    }
    found.faults = cut | (found.begin + size > packet->length ? MALFORMED : 0);
    found.line_end = packet->length;
    if (size && found.begin + size < packet->length) {
        found.line_end = found.begin + size;
    }
    found.end = found.line_end < packet->captured ? found.line_end : packet->captured;
    return found;
}

/* Zeros the fields of a packet's layer 3 that the digest leaves out. */
static void hide(uint8_t *layer3, int version, int fields) {
    if (version == IP4) {
        layer3[1] = fields & TOS ? layer3[1] : 0;
        layer3[8] = fields & TTL ? layer3[8] : 0;
        layer3[10] = layer3[11] = 0;
    } else {
        layer3[0] &= fields & TOS ? 0xFF : 0xF0;
        layer3[1] &= fields & TOS ? 0xFF : 0x0F;
        layer3[7] = fields & TTL ? layer3[7] : 0;
    }
}

static uint64_t length_on_top(int64_t words) { return (uint64_t)(8 * words + 7) << 56; }

/* Digest of a message: `head` holds the first bytes, up to HEAD, and `bytes` holds all of them. */
static uint64_t digest(const uint8_t *head, const uint8_t *bytes, int64_t size, int64_t length,
                       uint64_t closing, uint64_t low, uint64_t high) {
    SipState a = sip_start(low, high);
    SipState b = sip_start(low ^ OTHER_LANE_LOW, high ^ OTHER_LANE_HIGH);
    int64_t at = 0;
    for (; at + 16 <= size && at < HEAD; at += 16) {
        sip_word(&a, sip_load(head + at));
        sip_word(&b, sip_load(head + at + 8));
    }
    for (; at + 16 <= size; at += 16) {
        sip_word(&a, sip_load(bytes + at));
        sip_word(&b, sip_load(bytes + at + 8));
    }
    uint8_t last[16] = {0};
    int64_t rest = size - at, count = at / 8 + (at ? (rest + 7) / 8 : 2);
    memcpy(last, (at < HEAD ? head : bytes) + at, (size_t)rest);
    if (count > at / 8) {
        sip_word(&a, sip_load(last));
    }
    if (count > at / 8 + 1) {
        sip_word(&b, sip_load(last + 8));
    }
    if (length > size) {
        if (count++ & 1) {
            sip_word(&b, (uint64_t)length);
        } else {
            sip_word(&a, (uint64_t)length);
        }
    }
    closing |= (uint64_t)size & 0xFFFF;
    sip_word(&a, closing | length_on_top((count + 1) / 2));
    sip_word(&b, closing | length_on_top(count / 2));
    return sip_end(&a) ^ sip_end(&b);
}

static uint64_t digest_packet(const Packet *packet, const Layers *at, int fields, uint64_t low,
                              uint64_t high) {
    if (fields & FRAME || at->version == OTHER) {
        return digest(packet->bytes, packet->bytes, packet->captured, packet->length, 0, low, high);
    }
    int64_t first = fields & LAYER2 ? 0 : at->begin, size = at->end - first;
    uint64_t closing = (uint64_t)(at->version / 2) << 16 | (fields & VLAN ? at->tags : 0);
    uint8_t head[HEAD] = {0};
    memcpy(head, packet->bytes + first, (size_t)(size < HEAD ? size : HEAD));
    hide(head + at->begin - first, at->version, fields);
    return digest(head, packet->bytes + first, size, at->line_end - first, closing, low, high);
}

/* packet_digests(buffer, packets, fields, low, high, versions, faults, digests) */
static PyObject *packet_digests(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c, *d, *e;
    int fields, inside = 1;
    unsigned long long low, high;
    Packets packets;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOiKKOOO", &a, &b, &fields, &low, &high, &c, &d, &e)) {
        return NULL;
    }
    if (!take_packets(&all, a, b, &packets)) {
        return core_finish(&all, NULL);
    }
    uint8_t *versions = core_buffer(&all, c, 1, packets.count, 1, "versions");
    uint8_t *faults = versions ? core_buffer(&all, d, 1, packets.count, 1, "faults") : NULL;
    uint64_t *digests = faults ? core_buffer(&all, e, 8, packets.count, 1, "digests") : NULL;
    if (!digests) {
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < packets.count && inside; i++) {
        Packet packet;
        if ((inside = read_packet(&packets, i, &packet))) {
            Layers at = find_layers(&packet);
            versions[i] = (uint8_t)at.version;
            faults[i] = (uint8_t)at.faults;
            digests[i] = digest_packet(&packet, &at, fields, low, high);
        }
    }
    Py_END_ALLOW_THREADS
    return finish_packets(&all, inside);
}

/* Protocol and place of layer 4 of a packet of IPv6, `size` bytes; returns -1 without layer 4. */
static int64_t find_layer4(const uint8_t *layer3, int64_t size, int64_t *protocol) {
    int64_t place = 40;
    *protocol = layer3[6];
    for (int i = 0; i < MOST_EXTENSIONS; i++) {
        int kind = (int)*protocol, fragment = kind == 44;
        if (kind != 0 && kind != 43 && kind != 60 && kind != 135 && kind != 51 && !fragment) {
            return place;
        }
        if (place + 8 > size) {
            return -1;
        }
        const uint8_t *header = layer3 + place;
        *protocol = header[0];
        if (fragment && number(header + 2) & 0xFFF8) {
            return -1;
        }
        place += fragment ? 8 : kind == 51 ? 4 * (header[1] + 2) : 8 * (header[1] + 1);
    }
    return -1;
}

/* packet_headers(buffer, packets, table): rows of the table as in `Headers`. */
static PyObject *packet_headers(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c;
    int inside = 1;
    Packets packets;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &a, &b, &c)) {
        return NULL;
    }
    Py_ssize_t n = take_packets(&all, a, b, &packets) ? packets.count : -1;
    int64_t *table = n < 0 ? NULL : core_buffer(&all, c, 8, 6 * n, 1, "table");
    if (!table) {
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n && inside; i++) {
        Packet packet;
        if (!(inside = read_packet(&packets, i, &packet))) {
            break;
        }
        Layers at = find_layers(&packet);
        const uint8_t *layer3 = packet.bytes + at.begin;
        int64_t protocol = -1, layer4 = -1;
        if (at.version == IP4) {
            protocol = layer3[9];
            layer4 = number(layer3 + 6) & 0x1FFF ? -1 : 4 * (layer3[0] & 15);
        } else if (at.version == IP6) {
            layer4 = find_layer4(layer3, at.end - at.begin, &protocol);
        }
        int64_t row[] = {at.version, at.begin, at.end, at.faults, protocol,
                         layer4 < 0 ? -1 : at.begin + layer4};
        for (int column = 0; column < 6; column++) {
            table[column * n + i] = row[column];
        }
    }
    Py_END_ALLOW_THREADS
    return finish_packets(&all, inside);
}

PyMethodDef core_packets_methods[] = {
    {"packet_digests", packet_digests, METH_VARARGS, "Versions, faults and digests of packets."},
    {"packet_headers", packet_headers, METH_VARARGS, "Where the headers of packets are."},
    {NULL, NULL, 0, NULL},
};
