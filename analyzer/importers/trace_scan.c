/* Events of a JSON trace as columns, in one pass over the text, whatever its white space and the order of its keys. Knows neither
   Python nor the names of keys: it is told which key fills which column.

   A value that is one of few texts becomes the number of its text; each different text is kept once and is read as JSON by the
   caller. An event with anything out of the ordinary (a key twice, a number that is none, too many digits) is marked as odd, and
   the caller reads it by itself. What is not JSON ends the scan at the event before it. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRSTFAULT_VERSION 1

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

#define MOST_KEYS 256
#define KEY_SLOTS 1024
#define DEEPEST 60
#define TEXT_COLUMNS 16
#define MOST_DIGITS 18
/* A later moment in microseconds would leave 64 bits as nanoseconds. */
#define LATEST_US 4000000000000000LL

enum level { OF_EVENT, OF_ARGS, LEVELS };
enum kind { NONE, TEXT, TIME, WHOLE, NUMBER, LIST, ARGS };
enum status { FULL, ARRAY_ENDS, TEXT_ENDS, NO_JSON };
enum token { STRING, PLAIN_WHOLE, LONG_WHOLE, NIL, OTHER };

struct key {
    const char *name;
    int64_t length;
    enum kind kind;
    int32_t column;
};

/* Different texts of one column, one behind the other. */
struct texts {
    char *bytes;
    int64_t *ends;
    uint64_t *hashes;
    int32_t *slots;
    int64_t room, most, count, slot_count;
};

struct buffer {
    char *bytes;
    int64_t length, room;
};

struct scan {
    struct key keys[MOST_KEYS];
    int32_t slots[LEVELS][KEY_SLOTS];
    int32_t key_count, rest_column;
    struct texts texts[TEXT_COLUMNS];
    struct buffer outer, inner, list;
    int failed; /* no memory */
};

struct columns {
    int64_t *const *numbers;
    uint8_t *const *has;
    int32_t *const *codes;
    int32_t number_count, code_count;
    int64_t *begins, *ends;
    uint8_t *odd;
};

struct result {
    int64_t count, end;
    int32_t status;
};

/* -- memory ------------------------------------------------------------------------------------------------------------ */

static int reach(struct scan *s, void **at, int64_t *room, int64_t needed, int64_t size) {
    if (needed <= *room)
        return 1;
    int64_t more = *room ? *room : 64;
    while (more < needed)
        more *= 2;
    void *grown = realloc(*at, (size_t)(more * size));
    if (!grown) {
        s->failed = 1;
        return 0;
    }
    *at = grown;
    *room = more;
    return 1;
}

static void put(struct scan *s, struct buffer *to, const char *from, int64_t length) {
    if (!length || !reach(s, (void **)&to->bytes, &to->room, to->length + length, 1))
        return;
    memcpy(to->bytes + to->length, from, (size_t)length);
    to->length += length;
}

static uint64_t hash_of(const char *at, int64_t length) {
    uint64_t h = (uint64_t)length * 0x9E3779B97F4A7C15ull, word;
    for (; length >= 8; at += 8, length -= 8) {
        memcpy(&word, at, 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93ull;
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, at, (size_t)length);
    h = (h ^ word) * 0xD6E8FEB86659FD93ull;
    return h ^ h >> 32;
}

/* -- texts ------------------------------------------------------------------------------------------------------------- */

static void widen(struct scan *s, struct texts *t) {
    int64_t slot_count = t->slot_count ? 2 * t->slot_count : 1024;
    int32_t *slots = malloc((size_t)slot_count * sizeof *slots);
    if (!slots) {
        s->failed = 1;
        return;
    }
    memset(slots, 0xff, (size_t)slot_count * sizeof *slots);
    for (int64_t i = 0; i < t->count; i++) {
        uint64_t slot = t->hashes[i] & (uint64_t)(slot_count - 1);
        while (slots[slot] >= 0)
            slot = (slot + 1) & (uint64_t)(slot_count - 1);
        slots[slot] = (int32_t)i;
    }
    free(t->slots);
    t->slots = slots;
    t->slot_count = slot_count;
}

/* The number of a text in its column. */
static int32_t code_of(struct scan *s, struct texts *t, const char *at, int64_t length) {
    uint64_t hash = hash_of(at, length);
    if (2 * t->count >= t->slot_count)
        widen(s, t);
    if (s->failed)
        return -1;
    uint64_t mask = (uint64_t)(t->slot_count - 1), slot = hash & mask;
    for (int32_t i; (i = t->slots[slot]) >= 0; slot = (slot + 1) & mask) {
        int64_t begin = i ? t->ends[i - 1] : 0;
        if (t->hashes[i] == hash && t->ends[i] - begin == length && !memcmp(t->bytes + begin, at, (size_t)length))
            return i;
    }
    int64_t begin = t->count ? t->ends[t->count - 1] : 0, most = t->most;
    if (!reach(s, (void **)&t->bytes, &t->room, begin + length, 1) ||
        !reach(s, (void **)&t->ends, &most, t->count + 1, sizeof *t->ends) ||
        !reach(s, (void **)&t->hashes, &t->most, t->count + 1, sizeof *t->hashes))
        return -1;
    memcpy(t->bytes + begin, at, (size_t)length);
    t->ends[t->count] = begin + length;
    t->hashes[t->count] = hash;
    t->slots[slot] = (int32_t)t->count;
    return (int32_t)t->count++;
}

/* -- JSON -------------------------------------------------------------------------------------------------------------- */

/* Every function below begins at the first character of something and returns where it ends; NULL where that is not JSON or
   lies behind the text, which `over` tells apart. */

struct text {
    const char *end;
    int over; /* the text ends within a value */
    int odd;
};

static const char *beyond(struct text *t) {
    t->over = 1;
    return NULL;
}

static const char *blank(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

static const char *string(const char *at, struct text *t) {
    const uint64_t ones = 0x0101010101010101ull, high = 0x8080808080808080ull;
    for (at++;;) {
        while (t->end - at >= 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
            uint64_t found = ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
            if (found & high)
                break;
            at += 8;
        }
        while (at < t->end && *at != '"' && *at != '\\')
            at++;
        if (at >= t->end)
            return beyond(t);
        if (*at == '"')
            return at + 1;
        at += 2;
    }
}

static int in_scalar(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.';
}

static int is(const char *at, const char *end, const char *word) {
    return end - at == (int64_t)strlen(word) && !memcmp(at, word, (size_t)(end - at));
}

/* A number or a word; what is no JSON (NaN, Infinity) makes the event odd. */
static const char *scalar(const char *at, struct text *t, enum token *kind) {
    const char *begin = at;
    while (at < t->end && in_scalar(*at))
        at++;
    if (at >= t->end)
        return beyond(t);
    if (at == begin)
        return NULL;
    *kind = OTHER;
    const char *digit = *begin == '-' ? begin + 1 : begin;
    if (digit < at && *digit >= '0' && *digit <= '9') {
        const char *last = digit;
        while (last < at && *last >= '0' && *last <= '9')
            last++;
        if (last == at)
            *kind = last - digit <= MOST_DIGITS && (*digit != '0' || at - begin == 1) ? PLAIN_WHOLE : LONG_WHOLE;
    } else if (is(begin, at, "null"))
        *kind = NIL;
    else if (!is(begin, at, "true") && !is(begin, at, "false"))
        t->odd = 1;
    return at;
}

/* Any value, copied without the white space that is not in a string. */
static const char *value(struct scan *s, const char *at, struct text *t, struct buffer *to, int depth, enum token *kind) {
    enum token inner;
    *kind = OTHER;
    if (at >= t->end)
        return beyond(t);
    if (*at == '"') {
        const char *end = string(at, t);
        if (end)
            put(s, to, at, end - at);
        *kind = STRING;
        return end;
    }
    if (*at != '{' && *at != '[') {
        const char *end = scalar(at, t, kind);
        if (end)
            put(s, to, at, end - at);
        return end;
    }
    const char closing = *at == '{' ? '}' : ']';
    if (depth >= DEEPEST)
        return NULL;
    put(s, to, at, 1);
    at = blank(at + 1, t->end);
    if (at < t->end && *at == closing) {
        put(s, to, at, 1);
        return at + 1;
    }
    for (;;) {
        if (closing == '}') {
            if (at >= t->end)
                return beyond(t);
            const char *key = at;
            if (*at != '"' || !(at = string(at, t)))
                return NULL;
            put(s, to, key, at - key);
            at = blank(at, t->end);
            if (at >= t->end)
                return beyond(t);
            if (*at != ':')
                return NULL;
            put(s, to, ":", 1);
            at = blank(at + 1, t->end);
        }
        if (!(at = value(s, at, t, to, depth + 1, &inner)))
            return NULL;
        at = blank(at, t->end);
        if (at >= t->end)
            return beyond(t);
        put(s, to, at, 1);
        if (*at == closing)
            return at + 1;
        if (*at != ',')
            return NULL;
        at = blank(at + 1, t->end);
    }
}

static int64_t whole(const char *at, const char *end) {
    int negative = *at == '-';
    int64_t found = 0;
    for (at += negative; at < end; at++)
        found = 10 * found + (*at - '0');
    return negative ? -found : found;
}

/* Microseconds as whole nanoseconds, to the last digit, half to even; 0 where they have another form. */
static int nanoseconds(const char *at, const char *end, int64_t *found) {
    int negative = *at == '-', up = 0;
    int64_t us = 0, digits = 0, part = 0, places = 0;
    for (at += negative; at < end && *at >= '0' && *at <= '9'; at++, digits++)
        us = digits < MOST_DIGITS ? 10 * us + (*at - '0') : us;
    if (!digits || digits > MOST_DIGITS || us >= LATEST_US)
        return 0;
    if (at < end) {
        if (*at != '.' || ++at == end)
            return 0;
        for (; at < end && places < 3 && *at >= '0' && *at <= '9'; at++, places++)
            part = 10 * part + (*at - '0');
        for (; places < 3; places++)
            part *= 10;
        if (at < end) {
            const char *rest = at;
            int beyond_half = 0;
            if (*at < '0' || *at > '9')
                return 0;
            for (rest = at + 1; rest < end; rest++) {
                if (*rest < '0' || *rest > '9')
                    return 0;
                beyond_half |= *rest != '0';
            }
            up = *at > '5' || (*at == '5' && (beyond_half || (part & 1)));
        }
    }
    *found = us * 1000 + part + up;
    if (negative)
        *found = -*found;
    return 1;
}

/* -- events ------------------------------------------------------------------------------------------------------------ */

static const struct key *key_of(const struct scan *s, enum level level, const char *at, int64_t length) {
    for (uint64_t slot = hash_of(at, length) & (KEY_SLOTS - 1);; slot = (slot + 1) & (KEY_SLOTS - 1)) {
        int32_t i = s->slots[level][slot];
        if (i < 0)
            return NULL;
        if (s->keys[i].length == length && !memcmp(s->keys[i].name, at, (size_t)length))
            return &s->keys[i];
    }
}

static void number(const struct columns *c, int32_t column, int64_t row, int64_t found, struct text *t) {
    t->odd |= c->has[column][row];
    c->has[column][row] = 1;
    c->numbers[column][row] = found;
}

static void coded(const struct columns *c, int32_t column, int64_t row, int32_t code, struct text *t) {
    t->odd |= c->codes[column][row] >= 0;
    c->codes[column][row] = code;
}

static const char *object(struct scan *s, const struct columns *c, const char *at, int64_t row, enum level level,
                          struct text *t);

/* One key with its value, from the quote of the key on. */
static const char *member(struct scan *s, const struct columns *c, const char *at, int64_t row, enum level level,
                          struct text *t) {
    const char *name = at + 1, *begin;
    if (*at != '"' || !(at = string(at, t)))
        return NULL;
    const char *name_end = at - 1;
    at = blank(at, t->end);
    if (at >= t->end)
        return beyond(t);
    if (*at != ':')
        return NULL;
    begin = at = blank(at + 1, t->end);
    if (at >= t->end)
        return beyond(t);
    const struct key *key = key_of(s, level, name, name_end - name);
    enum kind kind = key ? key->kind : NONE;
    enum token token = OTHER;
    if (kind == ARGS && *at == '{')
        return object(s, c, at, row, OF_ARGS, t);
    if (kind == LIST && *at == '[') {
        s->list.length = 0;
        if ((at = value(s, at, t, &s->list, 0, &token)))
            coded(c, key->column, row, code_of(s, &s->texts[key->column], s->list.bytes, s->list.length), t);
        return at;
    }
    if (kind == TEXT && *at == '"') {
        if ((at = string(at, t)))
            coded(c, key->column, row, code_of(s, &s->texts[key->column], begin, at - begin), t);
        return at;
    }
    if (kind != NONE && in_scalar(*at)) {
        if (!(at = scalar(at, t, &token)))
            return NULL;
        if (kind == TEXT && token == PLAIN_WHOLE) {
            coded(c, key->column, row, code_of(s, &s->texts[key->column], begin, at - begin), t);
            return at;
        }
        if ((kind == NUMBER || kind == WHOLE) && token == PLAIN_WHOLE) {
            number(c, key->column, row, whole(begin, at), t);
            return at;
        }
        if (kind == TIME) {
            int64_t found = 0;
            if (nanoseconds(begin, at, &found))
                number(c, key->column, row, found, t);
            else
                t->odd = 1;
            return at;
        }
        if (kind == NUMBER && token == NIL)
            return at;
        t->odd |= token == LONG_WHOLE;
        at = begin;
    }
    if (kind == WHOLE || kind == TIME || kind == ARGS)
        t->odd = 1;
    struct buffer *to = level == OF_EVENT ? &s->outer : &s->inner;
    if (to->length)
        put(s, to, ",", 1);
    put(s, to, level == OF_EVENT ? "\"event." : "\"", level == OF_EVENT ? 7 : 1);
    put(s, to, name, name_end - name);
    put(s, to, "\":", 2);
    return value(s, at, t, to, 0, &token);
}

/* The object of an event or of its args, from its brace on. */
static const char *object(struct scan *s, const struct columns *c, const char *at, int64_t row, enum level level,
                          struct text *t) {
    at = blank(at + 1, t->end);
    if (at < t->end && *at == '}')
        return at + 1;
    for (;;) {
        if (at >= t->end)
            return beyond(t);
        if (!(at = member(s, c, at, row, level, t)))
            return NULL;
        at = blank(at, t->end);
        if (at >= t->end)
            return beyond(t);
        if (*at == '}')
            return at + 1;
        if (*at != ',')
            return NULL;
        at = blank(at + 1, t->end);
    }
}

static const char *event(struct scan *s, const struct columns *c, const char *at, int64_t row, struct text *t) {
    enum token token;
    for (int32_t i = 0; i < c->code_count; i++)
        c->codes[i][row] = -1;
    for (int32_t i = 0; i < c->number_count; i++)
        c->has[i][row] = 0;
    s->outer.length = s->inner.length = 0;
    t->odd = 0;
    if (*at != '{') {
        t->odd = 1;
        return value(s, at, t, &s->outer, 0, &token);
    }
    const char *end = object(s, c, at, row, OF_EVENT, t);
    if (end && (s->outer.length || s->inner.length)) {
        if (s->outer.length && s->inner.length)
            put(s, &s->outer, ",", 1);
        put(s, &s->outer, s->inner.bytes, s->inner.length);
        coded(c, s->rest_column, row, code_of(s, &s->texts[s->rest_column], s->outer.bytes, s->outer.length), t);
    }
    return end;
}

/* -- called from outside ----------------------------------------------------------------------------------------------- */

EXPORTED int32_t firstfault_scan_version(void) { return FIRSTFAULT_VERSION; }

EXPORTED struct scan *firstfault_scan_new(int32_t rest_column) {
    struct scan *s = calloc(1, sizeof *s);
    if (s) {
        memset(s->slots, 0xff, sizeof s->slots);
        s->rest_column = rest_column;
    }
    return s;
}

/* A key of events or of their args, whose name must stay where it is; returns 0 where there are too many. */
EXPORTED int32_t firstfault_scan_key(struct scan *s, int32_t level, const char *name, int64_t length, int32_t kind,
                                     int32_t column) {
    if (s->key_count >= MOST_KEYS)
        return 0;
    uint64_t slot = hash_of(name, length) & (KEY_SLOTS - 1);
    while (s->slots[level][slot] >= 0)
        slot = (slot + 1) & (KEY_SLOTS - 1);
    s->slots[level][slot] = s->key_count;
    s->keys[s->key_count++] = (struct key){name, length, (enum kind)kind, column};
    return 1;
}

/* Events from a place of the text on, which lies between two of them, at most so many. */
EXPORTED void firstfault_scan_events(struct scan *s, const char *text, int64_t at, int64_t held, int64_t most,
                                     const struct columns *c, struct result *found) {
    struct text t = {text + held, 0, 0};
    const char *here = text + at;
    found->count = 0;
    found->end = at;
    found->status = FULL;
    while (found->count < most) {
        while ((here = blank(here, t.end)) < t.end && *here == ',')
            here++;
        if (here >= t.end || *here == ']') {
            found->status = here >= t.end ? TEXT_ENDS : ARRAY_ENDS;
            return;
        }
        t.over = 0;
        const char *end = event(s, c, here, found->count, &t);
        if (!end || s->failed) {
            found->status = t.over ? TEXT_ENDS : NO_JSON;
            return;
        }
        c->begins[found->count] = here - text;
        c->ends[found->count] = end - text;
        c->odd[found->count++] = (uint8_t)t.odd;
        found->end = end - text;
        here = end;
    }
}

/* How many different texts a column has, and where they stand and end. */
EXPORTED int64_t firstfault_scan_texts(const struct scan *s, int32_t column, const char **bytes, const int64_t **ends) {
    *bytes = s->texts[column].bytes;
    *ends = s->texts[column].ends;
    return s->texts[column].count;
}

/* Begin the numbers of all columns again. */
EXPORTED void firstfault_scan_forget(struct scan *s) {
    for (int i = 0; i < TEXT_COLUMNS; i++) {
        s->texts[i].count = 0;
        if (s->texts[i].slots)
            memset(s->texts[i].slots, 0xff, (size_t)s->texts[i].slot_count * sizeof *s->texts[i].slots);
    }
}

EXPORTED void firstfault_scan_free(struct scan *s) {
    for (int i = 0; i < TEXT_COLUMNS; i++) {
        free(s->texts[i].bytes);
        free(s->texts[i].ends);
        free(s->texts[i].hashes);
        free(s->texts[i].slots);
    }
    free(s->outer.bytes);
    free(s->inner.bytes);
    free(s->list.bytes);
    free(s);
}
