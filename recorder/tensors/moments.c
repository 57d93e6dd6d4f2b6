/* Moments of arrays in memory, in one pass over each: how many elements are NaN, infinite and zero, and the minimum, maximum,
   sum and sum of squares of the finite ones. Knows neither Python nor torch. Nothing is allocated, kept or written but the
   results, so that any number of threads may call it at once.

   Sums are taken in the lanes of vectors of the element's own width over blocks of BLOCK elements, and added up in double.
   A block is first read as if all of it were finite: NaN and infinity survive in its sum of squares. Only a block whose sum of
   squares says so is read again, and the one after it starts where that one ended up. */

#include <stdint.h>
#include <string.h>

#define FIRSTFAULT_VERSION 5
#define BLOCK 1024

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif
#define INLINED static inline __attribute__((always_inline))

enum dtype { F32, F64, F16, BF16, BOOL, U8, I8, I16, I32, I64, U16, U32, U64, DTYPES };

static const int width_of[DTYPES] = {4, 8, 2, 2, 1, 1, 1, 2, 4, 8, 2, 4, 8};

struct moments {
    int64_t numel, nan, inf, zero;
    double min, max, sum, sum_sq;
};

/* What a copy of the code is for. */
enum processor { ANY, AVX2 };

/* How a block is read. */
enum care {
    TRUSTING, /* as if all were finite */
    MASKED,   /* without what is not finite */
    WIDE      /* that, and in double: squares leave float, or vanish in it */
};

/* Below this size squares of float lose digits, for they come near the smallest normal number (1e-38). */
#define SMALLEST 1e-13

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef double v4d __attribute__((vector_size(32)));
typedef int64_t v4l __attribute__((vector_size(32)));
typedef float v4f __attribute__((vector_size(16)));
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef uint32_t v8u __attribute__((vector_size(32)));

static const float infinity = __builtin_inff();

/* -- elements ------------------------------------------------------------------------------------------------------- */

/* Eight elements of float32, bfloat16 or float16 as float. Addresses need not be aligned. */
INLINED v8f load8(enum dtype dtype, const char *at) {
    if (dtype == F32) {
        v8f x;
        memcpy(&x, at, sizeof x);
        return x;
    }
    v8h half;
    memcpy(&half, at, sizeof half);
    v8u bits = __builtin_convertvector(half, v8u);
    if (dtype == BF16) return (v8f)(bits << 16);
    v8u sign = (bits & 0x8000u) << 16, exponent = bits & 0x7c00u, rest = (bits & 0x7fffu) << 13;
    v8u normal = rest + (112u << 23);
    v8u special = rest | 0x7f800000u;
    /* Subnormal numbers by way of an integer: a product with them would be zero where denormals are flushed. */
    v8u subnormal = (v8u)(__builtin_convertvector((v8i)(bits & 0x3ffu), v8f) * 0x1p-24f);
    v8u is_small = (v8u)(exponent == 0), is_special = (v8u)(exponent == 0x7c00u);
    return (v8f)(sign | (subnormal & is_small) | (special & is_special) | (normal & ~is_small & ~is_special));
}

/* One element as double, and its size as an integer: 0 for zero, ALL_ONES for infinity, more for NaN. Of the bits, so that
   denormals are what they are also where the processor flushes them. */
struct element {
    double x;
    uint64_t size;
};

#define ALL_ONES 0x7ff0000000000000

INLINED struct element load1(enum dtype dtype, const char *at) {
    struct element e;
    if (dtype == F64) {
        memcpy(&e.x, at, 8);
        memcpy(&e.size, at, 8);
        e.size &= 0x7fffffffffffffff;
        return e;
    }
    float x;
    if (dtype == F32) {
        memcpy(&x, at, 4);
    } else {
        char padded[16] = {0};
        memcpy(padded, at, 2);
        x = load8(dtype, padded)[0];
    }
    uint32_t bits;
    memcpy(&bits, &x, 4);
    e.x = x;
    e.size = bits & 0x7fffffff;
    if (e.size >= 0x7f800000) e.size += ALL_ONES - 0x7f800000;
    return e;
}

/* The smaller of each pair of lanes, the known one where the other is NaN. Compilers make a comparison and a choice of it where
   one instruction does; what is left out here where there is no such instruction is never called. */
#if defined(__x86_64__)
#define AVX_INSTRUCTION(name, x, known)                                                                                    \
    ({                                                                                                                     \
        __typeof__(x) result;                                                                                              \
        __asm__(#name " %2, %1, %0" : "=x"(result) : "x"(x), "x"(known));                                                  \
        result;                                                                                                            \
    })
#else
#define AVX_INSTRUCTION(name, x, known) (known)
#endif

INLINED v8f smaller(enum processor processor, v8f x, v8f known) {
    if (processor == AVX2) return AVX_INSTRUCTION(vminps, x, known);
    v8i mask = x < known;
    return (v8f)((mask & (v8i)x) | (~mask & (v8i)known));
}

INLINED v8f larger(enum processor processor, v8f x, v8f known) {
    if (processor == AVX2) return AVX_INSTRUCTION(vmaxps, x, known);
    v8i mask = x > known;
    return (v8f)((mask & (v8i)x) | (~mask & (v8i)known));
}

INLINED v4d smaller4(enum processor processor, v4d x, v4d known) {
    if (processor == AVX2) return AVX_INSTRUCTION(vminpd, x, known);
    v4l mask = x < known;
    return (v4d)((mask & (v4l)x) | (~mask & (v4l)known));
}

INLINED v4d larger4(enum processor processor, v4d x, v4d known) {
    if (processor == AVX2) return AVX_INSTRUCTION(vmaxpd, x, known);
    v4l mask = x > known;
    return (v4d)((mask & (v4l)x) | (~mask & (v4l)known));
}

INLINED v4d low_half(v8f x) { return (v4d){x[0], x[1], x[2], x[3]}; }

INLINED v4d high_half(v8f x) { return (v4d){x[4], x[5], x[6], x[7]}; }

INLINED double added(v4d x) { return (x[0] + x[1]) + (x[2] + x[3]); }

INLINED double added8(v8f x) { return added(low_half(x) + high_half(x)); }

INLINED int64_t counted(v8i x) {
    return -((int64_t)x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7]); /* a comparison that holds is -1 */
}

INLINED void widen(struct moments *m, double low, double high) {
    if (low < m->min) m->min = low;
    if (high > m->max) m->max = high;
}

/* -- floating point ------------------------------------------------------------------------------------------------- */

/* Elements one by one: what is left over after whole blocks. */
INLINED void few_floats(enum dtype dtype, const char *at, int64_t n, struct moments *m) {
    for (int64_t i = 0; i < n; i++) {
        struct element e = load1(dtype, at + i * width_of[dtype]);
        if (e.size >= ALL_ONES) {
            if (e.size > ALL_ONES) m->nan++;
            else m->inf++;
            continue;
        }
        m->zero += e.size == 0;
        widen(m, e.x, e.x);
        m->sum += e.x;
        m->sum_sq += e.x * e.x;
    }
}

/* Adds n elements, a multiple of 16 and at most BLOCK, of float32, bfloat16 or float16. Returns 0 and adds nothing where they
   ask for more care. */
INLINED int float_block(enum processor processor, enum dtype dtype, enum care care, const char *at, int64_t n, struct moments *m) {
    v8f sum[2] = {{0}}, sum_sq[2] = {{0}}, low[2], high[2];
    v4d wide_sum[2] = {{0}}, wide_sq[2] = {{0}};
    v8i zero = {0}, nan = {0}, inf = {0};
    low[0] = low[1] = (v8f){0} + infinity;
    high[0] = high[1] = (v8f){0} - infinity;
    const int width = width_of[dtype];
    for (int64_t i = 0; i < n; i += 16) {
        for (int k = 0; k < 2; k++) {
            v8f x = load8(dtype, at + (i + 8 * k) * width);
            v8i size = (v8i)x & 0x7fffffff;
            zero += size == 0;
            if (care == TRUSTING) {
                low[k] = smaller(processor, x, low[k]);
                high[k] = larger(processor, x, high[k]);
            } else {
                v8i finite = size < 0x7f800000;
                nan += size > 0x7f800000;
                inf += size == 0x7f800000;
                x = (v8f)((v8i)x & finite);
                low[k] = smaller(processor, (v8f)((v8i)x | (~finite & 0x7f800000)), low[k]);
                high[k] = larger(processor, (v8f)((v8i)x | (~finite & (int32_t)0xff800000)), high[k]);
            }
            if (care == WIDE) {
                v4d a = low_half(x), b = high_half(x);
                wide_sum[k] += a + b;
                wide_sq[k] += a * a + b * b;
            } else {
                sum[k] += x;
                sum_sq[k] += x * x;
            }
        }
    }
    double total = care == WIDE ? added(wide_sum[0] + wide_sum[1]) : added8(sum[0]) + added8(sum[1]);
    double squares = care == WIDE ? added(wide_sq[0] + wide_sq[1]) : added8(sum_sq[0]) + added8(sum_sq[1]);
    v8f lows = smaller(processor, low[1], low[0]), highs = larger(processor, high[1], high[0]);
    float least = infinity, most = -infinity;
    for (int k = 0; k < 8; k++) {
        if (lows[k] < least) least = lows[k];
        if (highs[k] > most) most = highs[k];
    }
    if (care != WIDE) {
        if (!(squares - squares == 0)) return 0;
        if (least > -SMALLEST && most < SMALLEST && (least < 0 || most > 0)) return 0;
    }
    m->nan += counted(nan);
    m->inf += counted(inf);
    m->zero += counted(zero);
    m->sum += total;
    m->sum_sq += squares;
    widen(m, least, most);
    return 1;
}

/* The same for float64, which has nothing wider: there is no WIDE. */
INLINED int double_block(enum processor processor, enum care care, const char *at, int64_t n, struct moments *m) {
    v4d sum[2] = {{0}}, sum_sq[2] = {{0}}, low[2], high[2];
    v4l zero[2] = {{0}}, nan[2] = {{0}}, inf[2] = {{0}};
    low[0] = low[1] = (v4d){0} + (double)infinity;
    high[0] = high[1] = (v4d){0} - (double)infinity;
    for (int64_t i = 0; i < n; i += 8) {
        for (int k = 0; k < 2; k++) {
            v4d x;
            memcpy(&x, at + (i + 4 * k) * 8, sizeof x);
            v4l size = (v4l)x & 0x7fffffffffffffff;
            zero[k] += size == 0;
            if (care == TRUSTING) {
                low[k] = smaller4(processor, x, low[k]);
                high[k] = larger4(processor, x, high[k]);
            } else {
                v4l finite = size < 0x7ff0000000000000;
                nan[k] += size > 0x7ff0000000000000;
                inf[k] += size == 0x7ff0000000000000;
                x = (v4d)((v4l)x & finite);
                low[k] = smaller4(processor, (v4d)((v4l)x | (~finite & 0x7ff0000000000000)), low[k]);
                high[k] = larger4(processor, (v4d)((v4l)x | (~finite & (int64_t)0xfff0000000000000)), high[k]);
            }
            sum[k] += x;
            sum_sq[k] += x * x;
        }
    }
    double squares = added(sum_sq[0] + sum_sq[1]);
    if (care == TRUSTING && !(squares - squares == 0)) return 0;
    for (int k = 0; k < 2; k++) {
        for (int j = 0; j < 4; j++) {
            widen(m, low[k][j], high[k][j]);
            m->zero -= zero[k][j];
            m->nan -= nan[k][j];
            m->inf -= inf[k][j];
        }
    }
    m->sum += added(sum[0] + sum[1]);
    m->sum_sq += squares;
    return 1;
}

INLINED void floats(enum processor processor, enum dtype dtype, const char *at, int64_t n, struct moments *m) {
    const int width = width_of[dtype], lanes = dtype == F64 ? 8 : 16;
    enum care care = TRUSTING;
    while (n >= lanes) {
        int64_t now = n < BLOCK ? n - n % lanes : BLOCK, lost = m->nan + m->inf;
        int done = 0;
        if (dtype == F64) {
            if (care == TRUSTING) done = double_block(processor, TRUSTING, at, now, m);
            if (!done) double_block(processor, MASKED, at, now, m);
        } else {
            if (care == TRUSTING) done = float_block(processor, dtype, TRUSTING, at, now, m);
            if (!done) done = float_block(processor, dtype, MASKED, at, now, m);
            if (!done) float_block(processor, dtype, WIDE, at, now, m);
        }
        care = m->nan + m->inf > lost ? MASKED : TRUSTING;
        at += now * width;
        n -= now;
    }
    few_floats(dtype, at, n, m);
}

/* -- integers ------------------------------------------------------------------------------------------------------- */

/* Exact within a block up to 32 bits; the squares of 32 bits are added in two halves. */
#define INTEGERS(name, type, wide, narrow)                                                                                 \
    INLINED void name(const char *at, int64_t n, struct moments *m) {                                                      \
        while (n > 0) {                                                                                                    \
            int64_t now = n < BLOCK ? n : BLOCK;                                                                           \
            type least, most;                                                                                              \
            memcpy(&least, at, sizeof least);                                                                              \
            most = least;                                                                                                  \
            wide sum = 0;                                                                                                  \
            uint64_t low = 0, high = 0;                                                                                    \
            int32_t zero = 0;                                                                                              \
            for (int64_t i = 0; i < now; i++) {                                                                            \
                type x;                                                                                                    \
                memcpy(&x, at + i * (int64_t)sizeof x, sizeof x);                                                          \
                least = x < least ? x : least;                                                                             \
                most = x > most ? x : most;                                                                                \
                zero += x == 0;                                                                                            \
                sum += x;                                                                                                  \
                uint64_t square = (uint64_t)((wide)x * (wide)x);                                                           \
                if (narrow) {                                                                                              \
                    low += square;                                                                                         \
                } else {                                                                                                   \
                    low += square & 0xffffffffu;                                                                           \
                    high += square >> 32;                                                                                  \
                }                                                                                                          \
            }                                                                                                              \
            m->zero += zero;                                                                                               \
            m->sum += (double)sum;                                                                                         \
            m->sum_sq += (double)low + 0x1p32 * (double)high;                                                              \
            widen(m, (double)least, (double)most);                                                                         \
            at += now * (int64_t)sizeof(type);                                                                             \
            n -= now;                                                                                                      \
        }                                                                                                                  \
    }

INTEGERS(uint8s, uint8_t, int64_t, 1)
INTEGERS(int8s, int8_t, int64_t, 1)
INTEGERS(int16s, int16_t, int64_t, 1)
INTEGERS(uint16s, uint16_t, int64_t, 1)
INTEGERS(int32s, int32_t, int64_t, 0)
INTEGERS(uint32s, uint32_t, uint64_t, 0)

/* Integers of 64 bits are added as double, each in four parts. */
#define LONG_INTEGERS(name, type)                                                                                          \
    INLINED void name(const char *at, int64_t n, struct moments *m) {                                                      \
        double sum[4] = {0}, sum_sq[4] = {0};                                                                              \
        int64_t zero = 0;                                                                                                  \
        type least, most;                                                                                                  \
        memcpy(&least, at, sizeof least);                                                                                  \
        most = least;                                                                                                      \
        for (int64_t i = 0; i < n; i += 4) {                                                                               \
            for (int k = 0; k < 4 && i + k < n; k++) {                                                                     \
                type x;                                                                                                    \
                memcpy(&x, at + (i + k) * 8, sizeof x);                                                                    \
                least = x < least ? x : least;                                                                             \
                most = x > most ? x : most;                                                                                \
                zero += x == 0;                                                                                            \
                sum[k] += (double)x;                                                                                       \
                sum_sq[k] += (double)x * (double)x;                                                                        \
            }                                                                                                              \
        }                                                                                                                  \
        m->zero += zero;                                                                                                   \
        m->sum += (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                                   \
        m->sum_sq += (sum_sq[0] + sum_sq[1]) + (sum_sq[2] + sum_sq[3]);                                                    \
        widen(m, (double)least, (double)most);                                                                             \
    }

LONG_INTEGERS(int64s, int64_t)
LONG_INTEGERS(uint64s, uint64_t)

/* Whatever byte is not zero is true. */
INLINED void bools(const char *at, int64_t n, struct moments *m) {
    int64_t zero = 0;
    for (int64_t i = 0; i < n; i++) zero += at[i] == 0;
    m->zero += zero;
    m->sum += (double)(n - zero);
    m->sum_sq += (double)(n - zero);
    widen(m, zero == 0, zero < n);
}

/* -- sums of squares alone ------------------------------------------------------------------------------------------ */

/* NaN where there is one, else infinite where something is. */
INLINED double squares_of(enum dtype dtype, const char *at, int64_t n) {
    const int width = width_of[dtype];
    double total = 0;
    while (dtype != F64 && n >= 32) {
        int64_t now = n < BLOCK ? n - n % 32 : BLOCK;
        v8f sum_sq[4] = {{0}};
        for (int64_t i = 0; i < now; i += 32) {
            for (int k = 0; k < 4; k++) {
                v8f x = load8(dtype, at + (i + 8 * k) * width);
                sum_sq[k] += x * x;
            }
        }
        double block = added8(sum_sq[0] + sum_sq[1]) + added8(sum_sq[2] + sum_sq[3]);
        if (!(block - block == 0) || block < SMALLEST * SMALLEST) {
            v4d wide[2] = {{0}};
            for (int64_t i = 0; i < now; i += 8) {
                v8f x = load8(dtype, at + i * width);
                v4d a = low_half(x), b = high_half(x);
                wide[0] += a * a;
                wide[1] += b * b;
            }
            block = added(wide[0] + wide[1]);
        }
        total += block;
        at += now * width;
        n -= now;
    }
    if (dtype == F64) {
        v4d sum_sq[2] = {{0}};
        for (; n >= 8; n -= 8, at += 64) {
            for (int k = 0; k < 2; k++) {
                v4d x;
                memcpy(&x, at + 32 * k, sizeof x);
                sum_sq[k] += x * x;
            }
        }
        total = added(sum_sq[0] + sum_sq[1]);
    }
    for (int64_t i = 0; i < n; i++) {
        double x = load1(dtype, at + i * width).x;
        total += x * x;
    }
    return total;
}

/* -- for each kind of processor -------------------------------------------------------------------------------------- */

#define DISPATCHED(suffix, processor, target)                                                                                         \
    target static void moments_##suffix(enum dtype dtype, const char *at, int64_t n, struct moments *m) {                  \
        switch (dtype) {                                                                                                   \
        case F32: floats(processor, F32, at, n, m); break;                                                                            \
        case F64: floats(processor, F64, at, n, m); break;                                                                            \
        case F16: floats(processor, F16, at, n, m); break;                                                                            \
        case BF16: floats(processor, BF16, at, n, m); break;                                                                          \
        case BOOL: bools(at, n, m); break;                                                                                 \
        case U8: uint8s(at, n, m); break;                                                                                  \
        case I8: int8s(at, n, m); break;                                                                                   \
        case I16: int16s(at, n, m); break;                                                                                 \
        case I32: int32s(at, n, m); break;                                                                                 \
        case I64: int64s(at, n, m); break;                                                                                 \
        case U16: uint16s(at, n, m); break;                                                                                \
        case U32: uint32s(at, n, m); break;                                                                                \
        case U64: uint64s(at, n, m); break;                                                                                \
        case DTYPES: break;                                                                                                \
        }                                                                                                                  \
    }                                                                                                                      \
    target static double squares_##suffix(enum dtype dtype, const char *at, int64_t n) {                                   \
        switch (dtype) {                                                                                                   \
        case F32: return squares_of(F32, at, n);                                                                           \
        case F64: return squares_of(F64, at, n);                                                                           \
        case F16: return squares_of(F16, at, n);                                                                           \
        case BF16: return squares_of(BF16, at, n);                                                                         \
        default: {                                                                                                         \
            struct moments m = {0};                                                                                        \
            if (n > 0) moments_##suffix(dtype, at, n, &m);                                                                 \
            return m.sum_sq;                                                                                               \
        }                                                                                                                  \
        }                                                                                                                  \
    }

DISPATCHED(plain, ANY, )

static void (*add_moments)(enum dtype, const char *, int64_t, struct moments *) = moments_plain;
static double (*sum_of_squares)(enum dtype, const char *, int64_t) = squares_plain;
static const char *instructions = "baseline";

#if defined(__x86_64__) && defined(__GNUC__)
DISPATCHED(avx2, AVX2, __attribute__((target("avx2,fma"))))

__attribute__((constructor)) static void look_at_processor(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        add_moments = moments_avx2;
        sum_of_squares = squares_avx2;
        instructions = "avx2";
    }
}
#endif

/* -- what is called from outside ------------------------------------------------------------------------------------- */

static void finish(struct moments *m, int64_t n) {
    m->numel = n;
    if (m->nan + m->inf == n) m->min = m->max = 0;
}

static void begin(struct moments *m) {
    memset(m, 0, sizeof *m);
    m->min = infinity;
    m->max = -infinity;
}

/* Moments of n elements that lie one after the other. The extremes are 0 where no element is finite. */
EXPORTED void firstfault_moments(const char *at, int64_t n, int32_t dtype, struct moments *m) {
    begin(m);
    if (n > 0) add_moments((enum dtype)dtype, at, n, m);
    finish(m, n);
}

/* Moments of each of many arrays. */
EXPORTED void firstfault_moments_of_many(int64_t count, const char *const *at, const int64_t *n, const int64_t *dtype,
                                         struct moments *m) {
    for (int64_t i = 0; i < count; i++) firstfault_moments(at[i], n[i], (int32_t)dtype[i], m + i);
}

/* Moments of elements with a size and a stride (in elements) for each of their dimensions. Those of the last dimension are
   copied together in small numbers where they do not lie one after the other. */
EXPORTED void firstfault_moments_strided(const char *at, int32_t dims, const int64_t *sizes, const int64_t *strides,
                                         int32_t dtype, struct moments *m) {
    enum { MOST_DIMS = 64, BUFFER = 1024 };
    char buffer[BUFFER * 8];
    const int width = width_of[dtype];
    int64_t index[MOST_DIMS] = {0}, numel = 1, filled = 0;
    begin(m);
    for (int d = 0; d < dims; d++) numel *= sizes[d];
    const int last = dims - 1;
    const int64_t n = dims ? sizes[last] : 1, step = dims ? strides[last] : 1;
    for (int64_t done = 0; done < numel; done += n) {
        int64_t offset = 0;
        for (int d = 0; d < last; d++) offset += index[d] * strides[d];
        const char *row = at + offset * width;
        if (step == 1 && n >= 64) {
            add_moments((enum dtype)dtype, row, n, m);
        } else {
            for (int64_t i = 0; i < n; i++) {
                memcpy(buffer + filled * width, row + i * step * width, (size_t)width);
                if (++filled == BUFFER) {
                    add_moments((enum dtype)dtype, buffer, filled, m);
                    filled = 0;
                }
            }
        }
        for (int d = last - 1; d >= 0 && ++index[d] == sizes[d]; d--) index[d] = 0;
    }
    if (filled) add_moments((enum dtype)dtype, buffer, filled, m);
    finish(m, numel);
}

/* Sum of the squares of n elements: NaN or infinite where one of them is. */
EXPORTED double firstfault_squares(const char *at, int64_t n, int32_t dtype) {
    return sum_of_squares((enum dtype)dtype, at, n);
}

/* Sum of the squares of all elements of many arrays: NaN or infinite where one of them is. */
EXPORTED double firstfault_squares_of_many(int64_t count, const char *const *at, const int64_t *n,
                                           const int64_t *dtype) {
    double total = 0;
    for (int64_t i = 0; i < count; i++) total += sum_of_squares((enum dtype)dtype[i], at[i], n[i]);
    return total;
}

/* Copies evenly spaced runs of so many elements of each of many arrays of one floating-point dtype to a vector of float, of
   double if they are; all of an array that has no more elements. */
EXPORTED void firstfault_sample(int64_t count, const char *const *at, const int64_t *n, const int64_t *dtype, int64_t runs,
                                int64_t length, char *to) {
    for (int64_t i = 0; i < count; i++) {
        const int whole = n[i] <= runs * length;
        const int64_t pieces = whole ? 1 : runs, each = whole ? n[i] : length, apart = n[i] / runs;
        const int width = width_of[dtype[i]];
        for (int64_t k = 0; k < pieces; k++) {
            const char *from = at[i] + k * apart * width;
            if (width >= 4) {
                memcpy(to, from, (size_t)(each * width));
                to += each * width;
            } else {
                for (int64_t j = 0; j < each; j++, to += 4) {
                    const float x = (float)load1((enum dtype)dtype[i], from + j * width).x;
                    memcpy(to, &x, 4);
                }
            }
        }
    }
}

/* An element as an integer: a number with a fraction by the bits it has as float. */
INLINED int64_t integer1(enum dtype dtype, const char *at) {
    int64_t wide;
    int32_t word;
    int16_t half;
    uint16_t unsigned_half;
    uint32_t unsigned_word;
    switch (dtype) {
    case BOOL: return *at != 0;
    case U8: return *(const uint8_t *)at;
    case I8: return *(const int8_t *)at;
    case I16: memcpy(&half, at, 2); return half;
    case U16: memcpy(&unsigned_half, at, 2); return unsigned_half;
    case I32: memcpy(&word, at, 4); return word;
    case U32: memcpy(&unsigned_word, at, 4); return unsigned_word;
    case I64:
    case U64: memcpy(&wide, at, 8); return wide;
    default: break;
    }
    const float x = (float)load1(dtype, at).x;
    memcpy(&word, &x, 4);
    return word;
}

/* For each row of a matrix ``first`` and so many of its elements, as integers, times a factor each; the sum wraps around.
   ``places`` says which elements; null stands for the first ones. */
EXPORTED void firstfault_fingerprints(const char *at, int64_t rows, int64_t columns, int32_t dtype, int64_t count,
                                      const int64_t *places, const int64_t *factors, int64_t first, int64_t *to) {
    const int width = width_of[dtype];
    for (int64_t i = 0; i < rows; i++, at += columns * width) {
        uint64_t sum = (uint64_t)first;
        for (int64_t k = 0; k < count; k++) {
            const int64_t place = places ? places[k] : k;
            sum += (uint64_t)integer1((enum dtype)dtype, at + place * width) * (uint64_t)factors[k];
        }
        to[i] = (int64_t)sum;
    }
}

/* How far the rows of a matrix of floating-point numbers lie apart: the root of the mean of its columns' variances, the same of the
   directions of its rows, and the root mean square of all elements. Rows and columns lie so many elements apart; there are MOST_COLUMNS
   at most. Sums are those of differences to the first row, so that rows which are alike cancel exactly. */
EXPORTED void firstfault_spread(const char *at, int64_t rows, int64_t columns, int64_t row_apart, int64_t column_apart,
                                int32_t dtype, double *to) {
    enum { MOST_COLUMNS = 128 };
    double first[MOST_COLUMNS], row[MOST_COLUMNS], sum[MOST_COLUMNS] = {0}, sum_sq[MOST_COLUMNS] = {0}, unit[MOST_COLUMNS] = {0};
    const int width = width_of[dtype];
    double size = 0, variance = 0, mean = 0;
    for (int64_t i = 0; i < rows; i++, at += row_apart * width) {
        double length = 0;
        for (int64_t j = 0; j < columns; j++) row[j] = load1((enum dtype)dtype, at + j * column_apart * width).x;
        if (i == 0) memcpy(first, row, sizeof row);
        for (int64_t j = 0; j < columns; j++) length += row[j] * row[j];
        size += length;
        length = __builtin_sqrt(length);
        if (length < 1e-30) length = 1e-30;
        for (int64_t j = 0; j < columns; j++) {
            const double apart = row[j] - first[j];
            sum[j] += apart;
            sum_sq[j] += apart * apart;
            unit[j] += row[j] / length;
        }
    }
    for (int64_t j = 0; j < columns; j++) {
        const double away = sum[j] / (double)rows, middle = unit[j] / (double)rows, of_column = sum_sq[j] / (double)rows - away * away;
        variance += of_column < 0 ? 0 : of_column;
        mean += middle * middle;
    }
    const double rest = 1 - mean;
    to[0] = __builtin_sqrt(variance / (double)columns);
    to[1] = __builtin_sqrt(rest < 0 ? 0 : rest);
    to[2] = __builtin_sqrt(size / (double)(rows * columns));
}

EXPORTED int32_t firstfault_version(void) { return FIRSTFAULT_VERSION; }

EXPORTED const char *firstfault_instructions(void) { return instructions; }
