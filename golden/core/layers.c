/* Layer 3 of a packet: `lately.golden.packets.packet_layers` and `encapsulations`. The function of
   a protocol moves the position past the header; no byte after the end is read. */
#include "packets.h"

#define MAX_TAGS 3
#define MAX_PACKETS 8
#define MAX_EXTENSIONS 16
#define MIN_LENGTH 3
#define MAX_LENGTH 1500
#define COOKED_LLC 4

enum { TYPE_IP4 = 0x0800, TYPE_IP6 = 0x86DD, TYPE_ARP = 0x0806, TYPE_LLDP = 0x88CC };
enum { BRIDGED = 0x6558, MPLS = 0x8847, MPLS_UPSTREAM, PPPOE = 0x8864, OF_PPP = 0x880B };
enum { ERSPAN = 0x88BE, ERSPAN3 = 0x22EB, OSI = 0x00FE, LONG_LLC = 0x8870 };
enum { IP_PROTOCOL = 0x10000, UDP_PORT = 0x20000, PPP_PROTOCOL = 0x30000 };
enum { LLC = 0x40000, STP, IS_IS, UNTYPED, PPP, ERSPAN2, NOTHING };
enum { MISSING = 1, WRONG }; /* IndexError and ValueError of the golden model */

/* Position in a packet, the first error, and the function to call with further tags. */
typedef struct {
    const uint8_t *bytes;
    int64_t captured, at, end;
    int kind, error;
    int64_t tag_count, until;
    uint64_t tags;
    void (*add)(void *state, int tag);
    void *state;
} Walk;

static int octet(Walk *w, int64_t at) {
    if (!w->error && at < w->captured && at < w->end) {
        return w->bytes[at];
    }
    w->error = w->error ? w->error : MISSING;
    return 0;
}

static int pair(Walk *w, int64_t at) {
    int high = octet(w, at);
    return high << 8 | octet(w, at + 1);
}

static int is_available(const Walk *w, int64_t end) { return end <= w->captured && end <= w->end; }
static void expect(Walk *w, int valid) { w->error = valid || w->error ? w->error : WRONG; }
static void move(Walk *w, int kind, int64_t at) { w->kind = kind, w->at = at; }
static void end_at(Walk *w, int64_t end) { w->end = end < w->end ? end : w->end; }

static int by_version(Walk *w, int64_t at) {
    int half = octet(w, at) >> 4;
    return half == 4 ? TYPE_IP4 : half == 6 ? TYPE_IP6 : NOTHING;
}

static void typed(Walk *w, int64_t type_at) {
    int kind = pair(w, type_at);
    int64_t at = type_at + 2;
    if (kind >= MIN_LENGTH && kind <= MAX_LENGTH && at + kind <= w->end) {
        move(w, LLC, at);
        w->end = at + kind;
    } else {
        move(w, kind > MAX_LENGTH ? kind : NOTHING, at);
    }
}

static void ethernet(Walk *w) { typed(w, w->at + 12); }
static void ip4(Walk *w) { w->kind = TYPE_IP4; }
static void ip6(Walk *w) { w->kind = TYPE_IP6; }

static void tag(Walk *w) {
    int identifier = pair(w, w->at) & 0xFFF;
    if (w->tag_count < CLOSING_TAGS) {
        w->tags |= (uint64_t)identifier << (20 + 12 * w->tag_count);
    } else if (w->add && w->at < w->until) {
        w->add(w->state, identifier);
    }
    w->tag_count++;
    typed(w, w->at + 2);
}

static void osi(Walk *w) {
    int first = octet(w, w->at);
    w->kind = first == 0x82 || first == 0x83 ? IS_IS : NOTHING;
}

static void llc(Walk *w) {
    int head = pair(w, w->at) << 8;
    head |= octet(w, w->at + 2);
    if (head == 0xAAAA03) {
        int organisation = octet(w, w->at + 3) << 16, kind;
        organisation |= pair(w, w->at + 4);
        kind = pair(w, w->at + 6);
        int is_typed = (organisation == 0 || organisation == 0xF8) && kind > MAX_LENGTH;
        int is_stp = organisation == 0xC && kind == 0x10B;
        move(w, is_typed ? kind : is_stp ? STP : NOTHING, w->at + 8);
    } else if (head == 0xFEFE03) {
        w->at += 3;
        osi(w);
    } else {
        move(w, head == 0x424203 ? STP : NOTHING, w->at + 3);
    }
}

static void mpls(Walk *w) {
    while (!(octet(w, w->at + 2) & 1) && !w->error) {
        w->at += 4;
    }
    move(w, UNTYPED, w->at + 4);
}

static int hardware_tag(int kind) { return kind == 0x8100 || kind == 0x88A8 || kind == 0x9100; }

static int software_tag(int kind) {
    return hardware_tag(kind) || kind == 0x9200 || kind == 0x9300;
}

static int is_tag(int kind, const Search *search) {
    if (search->reach == HARDWARE) {
        return hardware_tag(kind);
    }
    int is_known = software_tag(kind);
    for (Py_ssize_t i = 0; i < search->type_count; i++) {
        is_known |= kind == search->types[i];
    }
    return is_known;
}

static int version_of(int kind) {
    switch (kind) {
    case TYPE_IP4: return IP4;
    case TYPE_IP6: return IP6;
    case TYPE_ARP: case TYPE_LLDP: case STP: case IS_IS: return CONTROL;
    default: return OTHER;
    }
}

static void (*step_of(int kind))(Walk *);

static int is_ethernet(const Walk *w, int64_t at) {
    if (!is_available(w, at + 14)) {
        return 0;
    }
    int kind = number(w->bytes + at + 12);
    if (kind <= MAX_LENGTH) {
        return kind >= MIN_LENGTH && at + 14 + kind <= w->end;
    }
    return version_of(kind) || step_of(kind) || software_tag(kind);
}

static int fits(const Walk *w, int kind) {
    if (!is_available(w, w->at + 6)) {
        return 0;
    }
    const uint8_t *layer3 = w->bytes + w->at;
    int64_t room = w->end - w->at;
    if (kind == TYPE_IP6) {
        return 40 + number(layer3 + 4) <= room;
    }
    int header = 4 * (layer3[0] & 15), size = number(layer3 + 2);
    return header >= 20 && (size == 0 || (header <= size && size <= room));
}

static void untyped(Walk *w) {
    int kind = by_version(w, w->at);
    if (kind != NOTHING && fits(w, kind)) {
        w->kind = kind;
    } else if (pair(w, w->at) == 0 && is_ethernet(w, w->at + 4)) {
        move(w, BRIDGED, w->at + 4);
    } else {
        w->kind = is_ethernet(w, w->at) ? BRIDGED : kind;
    }
}

static void pppoe(Walk *w) {
    expect(w, pair(w, w->at) == 0x1100);
    int64_t end = w->at + 6 + pair(w, w->at + 4);
    move(w, PPP, w->at + 6);
    end_at(w, end);
}

static void ppp(Walk *w) {
    if (octet(w, w->at) == 0xFF && octet(w, w->at + 1) == 3) {
        w->at += 2;
    }
    int first = octet(w, w->at), is_short = first & 1;
    move(w, PPP_PROTOCOL + (is_short ? first : pair(w, w->at)), w->at + (is_short ? 1 : 2));
}

static void udp(Walk *w) {
    int64_t size = pair(w, w->at + 4), at = w->at;
    move(w, UDP_PORT + pair(w, at + 2), at + 8);
    end_at(w, size >= 8 ? at + size : w->end);
}

static void vxlan(Walk *w) {
    expect(w, octet(w, w->at) & 8);
    move(w, BRIDGED, w->at + 8);
}

static void geneve(Walk *w) {
    int first = octet(w, w->at);
    expect(w, !(octet(w, w->at + 1) & 0x80 || first >> 6));
    move(w, pair(w, w->at + 2), w->at + 8 + 4 * (first & 63));
}

static void gre(Walk *w) {
    int flags = pair(w, w->at), kind = pair(w, w->at + 2);
    int64_t at = w->at + 4;
    int key = flags & 0x2000 ? 4 : 0, sequence = flags & 0x1000 ? 4 : 0;
    if ((flags & 7) == 1) {
        expect(w, kind == OF_PPP && key && sequence);
        int64_t begin = at + 8 + (flags & 0x80 ? 4 : 0);
        int64_t end = begin + pair(w, at);
        move(w, PPP, begin);
        end_at(w, end);
        return;
    }
    expect(w, !(flags & 7));
    at += (flags & 0xC000 ? 4 : 0) + key + sequence;
    while (flags & 0x4000 && !w->error) {
        int family = pair(w, at), size = octet(w, at + 3);
        at += 4 + size;
        flags = family || size ? flags : 0;
    }
    move(w, kind != ERSPAN ? kind : sequence ? ERSPAN2 : BRIDGED, at);
}

static void erspan2(Walk *w) {
    expect(w, octet(w, w->at) >> 4 == 1);
    move(w, BRIDGED, w->at + 8);
}

static void erspan3(Walk *w) {
    int last = pair(w, w->at + 10), of = last >> 10 & 31;
    expect(w, octet(w, w->at) >> 4 == 2);
    move(w, of == 0 ? BRIDGED : of == 2 ? UNTYPED : NOTHING, w->at + 12 + 8 * (last & 1));
}

static void gtp(Walk *w) {
    int64_t at = w->at;
    int flags = octet(w, at);
    expect(w, flags >> 4 == 3 && octet(w, at + 1) == 0xFF);
    int64_t end = at + 8 + pair(w, at + 2);
    int following = flags & 4 ? octet(w, at + 11) : 0;
    at += flags & 7 ? 12 : 8;
    while (following && !w->error) {
        int size = 4 * octet(w, at);
        expect(w, size);
        following = octet(w, at + size - 1);
        at += size;
    }
    move(w, UNTYPED, at);
    end_at(w, end);
}

/* The function of a protocol; NULL if there is none. */
static void (*step_of(int kind))(Walk *) {
    switch (kind) {
    case BRIDGED: return ethernet;
    case LLC: case LONG_LLC: return llc;
    case MPLS: case MPLS_UPSTREAM: case IP_PROTOCOL + 137: return mpls;
    case PPP_PROTOCOL + 0x281: case PPP_PROTOCOL + 0x283: return mpls;
    case OSI: return osi;
    case PPPOE: return pppoe;
    case OF_PPP: case PPP: return ppp;
    case UNTYPED: return untyped;
    case PPP_PROTOCOL + 0x21: case IP_PROTOCOL + 4: return ip4;
    case PPP_PROTOCOL + 0x57: case IP_PROTOCOL + 41: return ip6;
    case IP_PROTOCOL + 17: return udp;
    case IP_PROTOCOL + 47: return gre;
    case UDP_PORT + 4789: case UDP_PORT + 8472: return vxlan;
    case UDP_PORT + 6081: return geneve;
    case UDP_PORT + 2152: return gtp;
    case ERSPAN2: return erspan2;
    case ERSPAN3: return erspan3;
    default: return NULL;
    }
}

/* Moves to the content of one of the search's tunnels; returns 0 if there is no such tunnel. */
static int enter_tunnel(Walk *w, const Search *search) {
    for (Py_ssize_t i = 0; i < search->tunnel_count; i++) {
        const int64_t *tunnel = search->tunnels[i];
        if (w->kind == UDP_PORT + tunnel[0]) {
            int64_t at = w->at + tunnel[1];
            move(w, tunnel[2] ? by_version(w, at) : BRIDGED, at);
            return 1;
        }
    }
    return 0;
}

static void walk(Walk *w, const Search *search) {
    while (!version_of(w->kind) && !w->error) {
        int hardware = search->reach == HARDWARE;
        if (is_tag(w->kind, search) && !(hardware && w->tag_count == MAX_TAGS)) {
            tag(w);
        } else if (hardware || !enter_tunnel(w, search)) {
            void (*step)(Walk *) = hardware ? NULL : step_of(w->kind);
            if (!step) {
                break;
            }
            step(w);
        }
    }
    if (search->reach == HARDWARE && w->kind != TYPE_IP4 && w->kind != TYPE_IP6) {
        w->kind = NOTHING;
    }
}

static Walk start(const Packet *packet) {
    Walk w = {.bytes = packet->bytes, .captured = packet->captured, .end = packet->length,
              .kind = NOTHING};
    int64_t begin, type_at; /* offset of layer 3, and offset of the EtherType or -1 */
    switch (packet->link) {
    case 1: begin = 14, type_at = 12; break;
    case 113: begin = 16, type_at = 14; break;
    case 276: begin = 20, type_at = 0; break;
    case 0: case 108: begin = 4, type_at = -1; break;
    case 12: case 14: case 101: case 228: case 229: begin = 0, type_at = -1; break;
    default: return w;
    }
    if (packet->captured < begin) {
        w.error = MISSING;
    } else if (type_at < 0) {
        move(&w, by_version(&w, begin), begin);
    } else if (packet->link == 1) {
        typed(&w, type_at);
    } else {
        int kind = pair(&w, type_at);
        move(&w, kind == COOKED_LLC ? LLC : kind, begin);
    }
    return w;
}

/* Length of layer 3 from its header; 0 for up to the end. */
static int64_t size_of(Walk *w) {
    int64_t at = w->at, size = 0;
    int head, header, count = 0;
    switch (w->kind) {
    case TYPE_IP4:
        octet(w, at + 19);
        size = pair(w, at + 2), header = 4 * (octet(w, at) & 15);
        expect(w, octet(w, at) >> 4 == 4 && header >= 20 && (!size || size >= header));
        return size;
    case TYPE_IP6:
        octet(w, at + 39);
        size = pair(w, at + 4);
        expect(w, octet(w, at) >> 4 == 6);
        return size || octet(w, at + 6) == 59 ? 40 + size : 0;
    case TYPE_ARP:
        size = octet(w, at + 4);
        return 8 + 2 * (size + octet(w, at + 5));
    case TYPE_LLDP:
        while (((head = pair(w, at + size)) || count < 3) && !w->error) {
            expect(w, ++count > 3 || head >> 9 == count);
            size += 2 + (head & 511);
        }
        return size + 2;
    default:
        return 0;
    }
}

static void read_layer3(Walk *w, int cut, Layers *layers) {
    int64_t size = size_of(w);
    if (w->error) {
        return;
    }
    int version = version_of(w->kind);
    *layers = (Layers){.version = version, .faults = cut, .begin = w->at, .tags = w->tags,
                       .tag_count = w->tag_count, .kind = version == CONTROL ? w->kind : 0};
    layers->faults |= w->at + size > w->end ? MALFORMED : 0;
    layers->line_end = size && w->at + size < w->end ? w->at + size : w->end;
    int64_t count = w->tag_count < CLOSING_TAGS ? w->tag_count : CLOSING_TAGS;
    layers->tags |= (uint64_t)count << 18;
    layers->end = layers->line_end < w->captured ? layers->line_end : w->captured;
}

/* Moves to the content of an IP packet. */
static void enter(Walk *w, const Layers *layers) {
    int protocol, part;
    const uint8_t *layer3 = w->bytes + layers->begin;
    int64_t size = layers->end - layers->begin;
    int64_t at = find_layer4(layer3, size, layers->version, &protocol, &part);
    if (part || at < 0) {
        w->error = MISSING;
    }
    move(w, IP_PROTOCOL + protocol, layers->begin + at);
    w->end = layers->line_end;
}

static Layers search_layers(Walk *w, const Packet *packet, const Search *search) {
    int cut = packet->captured < packet->length ? CUT : 0;
    Layers layers = {OTHER, cut, 0, 0, packet->captured, packet->length, 0, 0};
    for (int i = 0; i < MAX_PACKETS && !w->error; i++) {
        walk(w, search);
        if (w->error || !version_of(w->kind)) {
            break;
        }
        read_layer3(w, cut, &layers);
        if (w->error || search->reach != INNER || layers.version == CONTROL) {
            break;
        }
        enter(w, &layers);
    }
    if (w->error && layers.version == OTHER && !(w->error == MISSING && cut)) {
        layers.faults |= MALFORMED;
    }
    return layers;
}

Layers find_layers(const Packet *packet, const Search *search) {
    Walk w = start(packet);
    return search_layers(&w, packet, search);
}

void further_tags(const Packet *packet, const Search *search, const Layers *layers,
                  void (*add)(void *state, int tag), void *state) {
    Walk w = start(packet);
    w.add = add, w.state = state, w.until = layers->begin;
    search_layers(&w, packet, search);
}

int64_t find_layer4(const uint8_t *layer3, int64_t size, int version, int *protocol, int *part) {
    int64_t at = 40;
    *part = 0;
    if (version == IP4) {
        *part = (number(layer3 + 6) & 0x3FFF) > 0;
        *protocol = layer3[9];
        return number(layer3 + 6) & 0x1FFF ? -1 : 4 * (layer3[0] & 15);
    }
    *protocol = version == IP6 ? layer3[6] : -1;
    if (version != IP6) {
        return -1;
    }
    for (int i = 0; i < MAX_EXTENSIONS; i++) {
        int kind = *protocol, fragment = kind == 44;
        if (kind != 0 && kind != 43 && kind != 60 && kind != 135 && kind != 51 && !fragment) {
            return at;
        }
        if (at + 8 > size) {
            return -1;
        }
        const uint8_t *header = layer3 + at;
        int offset = fragment ? number(header + 2) : 0;
        *protocol = header[0];
        *part |= (offset & 0xFFF9) > 0;
        if (offset & 0xFFF8) {
            return -1;
        }
        at += fragment ? 8 : kind == 51 ? 4 * (header[1] + 2) : 8 * (header[1] + 1);
    }
    return -1;
}
