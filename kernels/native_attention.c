/* Attention of packed tokens over rows in a pool of pages, for CPUs: native_attention.py compiles it and says why.

   One work item is one row, one key-value head, up to QUERIES of its queries (a query is a token in a query head; all
   heads that share the keys are in one item), and up to SPAN keys. It goes through the keys in blocks of BLOCK and keeps
   a running maximum and sum of each query (online softmax; FlashAttention, arXiv 2205.14135). The spans of a longer row
   are joined in their order, so that one long row keeps all threads busy. The arithmetic is float32.

   Each query goes through the same operations in the same order, wherever its item ends and whatever other queries are
   in it: keys that it does not see have a weight of exactly zero, and adding zero or scaling by one changes no bit.
   Blocks and spans are counted from the start of the row, so the order is also the same whatever pages its tokens lie in. A page
   holds a multiple of LANES tokens, so LANES tokens of a block are in one page. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define TILE 4               /* queries and vectors that one product keeps in registers */
#define FEW (2 * TILE)       /* queries, up to which a product reads keys and values where they lie */
#define BLOCK (TILE * LANES) /* keys */
#define QUERIES 64
#define SPAN 1024            /* keys; whole blocks */
#define LEAST -1e30f

typedef float floats __attribute__((vector_size(LANES * 4), aligned(4)));
typedef int32_t ints __attribute__((vector_size(LANES * 4), aligned(4)));
#ifdef BFLOAT16
typedef uint16_t element;
typedef uint16_t elements __attribute__((vector_size(LANES * 2), aligned(2)));
#define DEPTH (2 * LANES)    /* elements that a vector of the pool holds */
#else
typedef float element;
#define DEPTH LANES
#endif

static inline floats widen(const element *from) {
#ifdef BFLOAT16
    elements bits;
    memcpy(&bits, from, sizeof bits);
    return (floats)(__builtin_convertvector(bits, ints) << 16);
#else
    return *(const floats *)from;
#endif
}

/* The first n of LANES elements, and zeros. */
static inline floats widen_some(const element *from, int n) {
    element padded[LANES] = {0};
    if (n >= LANES) return widen(from);
    if (n > 0) memcpy(padded, from, n * sizeof(element));
    return widen(padded);
}

static inline element narrow(float x) {
#ifdef BFLOAT16
    uint32_t bits;
    if (x != x) return 0x7fc0;
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16; /* to the nearest, ties to even */
#else
    return x;
#endif
}

static inline floats choose(ints condition, floats yes, floats no) {
    return (floats)(((ints)yes & condition) | ((ints)no & ~condition));
}

static inline floats filled(float x) { return (floats){0} + x; }

/* e^x for x <= 0; the polynomial is Cephes' expf. NaN stays NaN. */
static inline floats exponential(floats x) {
    const float magic = 12582912.f; /* 1.5 * 2^23: adding it rounds to an integer */
    floats shifted = x * 1.44269504f + magic, n = shifted - magic;
    floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.f;
    floats result = (floats)((ints)p + (((ints)shifted - 0x4b400000) << 23));
    return choose(x != x, x, choose(x > filled(-87.f), result, filled(0.f)));
}

static float largest(floats x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most || x[i] != x[i] ? x[i] : most;
    return most;
}

static float total(floats x) {
    float part[LANES];
    memcpy(part, &x, sizeof x);
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) part[i] += part[i + width];
    return part[0];
}

/* c [TILE, BLOCK] = a [TILE, depth] x b [depth, BLOCK], or added to it. */
static inline __attribute__((always_inline)) void multiply(
    const float *a, int a_width, const float *b, int b_width, int depth, float *c, int c_width, int adds) {
    floats sum[TILE][TILE];
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) sum[i][j] = adds ? *(floats *)(c + i * c_width + j * LANES) : filled(0.f);
    for (int k = 0; k < depth; k++) {
        floats right[TILE];
        for (int j = 0; j < TILE; j++) right[j] = *(const floats *)(b + k * b_width + j * LANES);
        for (int i = 0; i < TILE; i++)
            for (int j = 0; j < TILE; j++) sum[i][j] += a[i * a_width + k] * right[j];
    }
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) *(floats *)(c + i * c_width + j * LANES) = sum[i][j];
}

/* Transposes a square by exchanging blocks of 1, 2, 4, ... lanes. */
#define LOW(s, i) ((i) & (s) ? LANES + ((i) ^ (s)) : (i))
#define HIGH(s, i) ((i) & (s) ? LANES + (i) : ((i) ^ (s)))
#define EIGHT(f, s, i) f(s, i), f(s, i + 1), f(s, i + 2), f(s, i + 3), f(s, i + 4), f(s, i + 5), f(s, i + 6), f(s, i + 7)
#if LANES == 16
#define EACH(f, s) EIGHT(f, s, 0), EIGHT(f, s, 8)
#else
#define EACH(f, s) EIGHT(f, s, 0)
#endif
#ifdef __clang__
#define SHUFFLE(a, b, f, s) __builtin_shufflevector(a, b, EACH(f, s))
#else
#define SHUFFLE(a, b, f, s) __builtin_shuffle(a, b, (ints){EACH(f, s)})
#endif
#define EXCHANGE(s, from, to)                                 \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)  \
        if (!(i & s)) {                                       \
            to[i] = SHUFFLE(from[i], from[i | s], LOW, s);    \
            to[i | s] = SHUFFLE(from[i], from[i | s], HIGH, s); \
        }

static inline __attribute__((always_inline)) void transpose(floats *row) {
    floats other[LANES];
    EXCHANGE(1, row, other)
    EXCHANGE(2, other, row)
    EXCHANGE(4, row, other)
#if LANES == 16
    EXCHANGE(8, other, row)
#else
    memcpy(row, other, sizeof other);
#endif
}

typedef struct {
    int64_t outer, head, slot; /* in elements; outer: a page, or a token of queries and results, which have no slots */
} strides;

typedef struct {
    const element *q, *k, *v;
    element *out;
    strides key, value, query, result;
    const int32_t *start, *count, *length; /* [R]; length: tokens before the new ones */
    const int32_t *page_table;         /* [R, n_pages], the pages of each row */
    const int64_t *position;           /* [N] */
    const float *sinks;                /* [Hq], or none */
    int32_t n_rows, n_kv, group, dim, value_dim, max_count; /* max_count: new tokens of a row, at most */
    int32_t n_pages, page_size, page_table_stride;
    int32_t window;                    /* 0: none */
    float scale, softcap;              /* softcap 0: none */
} problem;

static inline int rounded(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

/* Where a block's keys or values lie: a pointer for every LANES tokens, and the stride from token to token. */
typedef struct {
    const element *group[TILE];
    int64_t stride;
} place;

/* The first n tokens of the block that begins at token `first` of a row; the table is not read past them. */
static inline place find_tokens(
    const problem *p, const element *pool, const strides *by, const int32_t *pages, int first, int n) {
    place found = {.stride = by->slot};
    for (int g = 0; g < TILE; g++) {
        int at = first + g * LANES;
        if (g * LANES < n) found.group[g] = pool + pages[at / p->page_size] * by->outer + at % p->page_size * by->slot;
    }
    return found;
}

/* A block of keys and values, of which the row has n. */
typedef struct {
    place key, value;
    int n;
} block;

static inline block find_block(const problem *p, int head, const int32_t *pages, int first, int n) {
    return (block){
        find_tokens(p, p->k + head * p->key.head, &p->key, pages, first, n),
        find_tokens(p, p->v + head * p->value.head, &p->value, pages, first, n),
        n,
    };
}

/* Asks for DEPTH elements of LANES tokens of a block. */
static inline void prefetch(const place *from, int j, int n, int d, int dim) {
    if (d < dim)
        for (int i = 0; i < LANES && j + i < n; i++)
            __builtin_prefetch(from->group[j / LANES] + i * from->stride + d);
}

/* LANES keys [n, DEPTH] of a block, from key j and element d on, as [DEPTH, LANES]; zeros around them.
   Pairs of bfloat16 are exchanged as one number. */
static inline __attribute__((always_inline)) void read_square(
    const place *from, int j, int n, int d, int dim, floats *to) {
    const element *group = from->group[j / LANES] + d;
    floats square[LANES];
    if (n - j >= LANES && dim - d >= DEPTH) {
        _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)
            square[i] = *(const floats *)(group + i * from->stride);
    } else {
        int n_here = dim - d < DEPTH ? dim - d : DEPTH;
        memset(square, 0, sizeof square);
        for (int i = 0; i < LANES && j + i < n; i++)
            memcpy(square + i, group + i * from->stride, n_here * sizeof(element));
    }
    transpose(square);
#ifdef BFLOAT16
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) {
        to[2 * i] = (floats)((ints)square[i] << 16);
        to[2 * i + 1] = (floats)((ints)square[i] & (int32_t)0xffff0000);
    }
#else
    memcpy(to, square, sizeof square);
#endif
}

/* Keys [n, dim] as [dim rounded up, BLOCK], zeros after them. */
static void read_keys(const place *from, int n, int dim, float *to) {
    for (int j = 0; j < BLOCK; j += LANES)
        for (int d = 0; d < dim; d += DEPTH) {
            floats square[DEPTH];
            read_square(from, j, n, d, dim, square);
            _Pragma("GCC unroll 32") for (int i = 0; i < DEPTH; i++) *(floats *)(to + (d + i) * BLOCK + j) = square[i];
        }
}

/* Values [n, dim] as [BLOCK, width], zeros around them. */
static void read_values(const place *from, int n, int dim, float *to, int width) {
    for (int j = 0; j < BLOCK; j++) {
        const element *value = from->group[j / LANES] + j % LANES * from->stride;
        for (int d = 0; d < width; d += LANES)
            *(floats *)(to + j * width + d) = j < n ? widen_some(value + d, dim - d) : filled(0.f);
    }
}

/* Scores [n_queries, BLOCK] of few queries [n_queries, width], as `multiply` with what `read_keys` returns. It asks for
   the next block on the way, so that memory works while this block is computed. */
static inline __attribute__((always_inline)) void score_few(
    const problem *p, const float *queries, int n_queries, int width, const block *here, const block *next,
    float *scores) {
    for (int j = 0; j < BLOCK; j += LANES) {
        floats sum[FEW];
        for (int i = 0; i < n_queries; i++) sum[i] = filled(0.f);
        for (int d = 0; d < p->dim && j < here->n; d += DEPTH) {
            floats square[DEPTH];
            read_square(&here->key, j, here->n, d, p->dim, square);
            prefetch(&next->key, j, next->n, d, p->dim);
            prefetch(&next->value, j, next->n, d, p->value_dim);
            _Pragma("GCC unroll 32") for (int e = 0; e < DEPTH; e++)
                for (int i = 0; i < n_queries; i++) sum[i] += queries[i * width + d + e] * square[e];
        }
        for (int i = 0; i < n_queries; i++) *(floats *)(scores + i * BLOCK + j) = sum[i];
    }
}

/* Adds weights [TILE, BLOCK] x values [n, dim] to sums [TILE, width], as `multiply` with what `read_values` returns. */
static inline __attribute__((always_inline)) void add_values(
    const float *weights, const place *from, int n, int dim, float *sums, int width) {
    for (int d = 0; d < width; d += BLOCK) {
        floats sum[TILE][TILE];
        for (int i = 0; i < TILE; i++)
            for (int v = 0; v < TILE; v++) sum[i][v] = *(floats *)(sums + i * width + d + v * LANES);
        for (int j = 0; j < n; j++) {
            const element *value = from->group[j / LANES] + j % LANES * from->stride + d;
            floats right[TILE];
            for (int v = 0; v < TILE; v++) right[v] = widen_some(value + v * LANES, dim - d - v * LANES);
            for (int i = 0; i < TILE; i++)
                for (int v = 0; v < TILE; v++) sum[i][v] += weights[i * BLOCK + j] * right[v];
        }
        for (int i = 0; i < TILE; i++)
            for (int v = 0; v < TILE; v++) /* the keys after n add zero */
                *(floats *)(sums + i * width + d + v * LANES) = n < BLOCK ? sum[i][v] + 0.f : sum[i][v];
    }
}

/* Turns a query's scores of the keys [first, first + BLOCK) into weights; returns what earlier sums shrink by. */
static float weigh(
    const problem *p, float *score, int first, int begin, int end, float *most, float *sum) {
    floats s[TILE], highest = filled(LEAST), added = filled(0.f);
    ints lane;
    for (int i = 0; i < LANES; i++) lane[i] = i;
    if (p->softcap)
        for (int j = 0; j < BLOCK; j++) score[j] = tanhf(score[j] / p->softcap) * p->softcap;
    for (int j = 0; j < TILE; j++) {
        ints at = lane + (first + j * LANES);
        s[j] = choose((at < end) & (at >= begin), *(floats *)(score + j * LANES), filled(-INFINITY));
        highest = choose(highest > s[j], highest, s[j]);
    }
    float before = *most, now = largest(highest);
    if (before > now) now = before;
    for (int j = 0; j < TILE; j++) {
        s[j] = exponential(s[j] - now);
        added += s[j];
        *(floats *)(score + j * LANES) = s[j];
    }
    float shrinks = exponential(filled(before - now))[0];
    *most = now;
    *sum = *sum * shrinks + total(added);
    return shrinks;
}

/* Of each query over a span: the highest score, the sum of weights (0: it sees no key), the weighted sum of values. */
typedef struct {
    float most[QUERIES], sum[QUERIES], sums[QUERIES * (MAX_DIM + BLOCK)];
} part;

static inline int count_keys(const problem *p, int r) {
    int n = p->length[r] + p->count[r], n_slots = p->n_pages * p->page_size;
    return n < n_slots ? n : n_slots;
}

static inline int count_spans(const problem *p, int r) {
    int n = rounded(count_keys(p, r), SPAN) / SPAN;
    return n > 1 ? n : 1;
}

static void finish(const problem *p, int r, int head, int from, int n, int width, const part *done) {
    for (int i = 0; i < n; i++) {
        int at = from + i, token = p->start[r] + at / p->group, query_head = head * p->group + at % p->group;
        element *out = p->out + token * p->result.outer + query_head * p->result.head;
        for (int d = 0; d < p->value_dim; d++) out[d] = narrow(done->sums[i * width + d] / done->sum[i]);
    }
}

static inline int count_queries(const problem *p, int r, int from) {
    int n = p->count[r] * p->group - from;
    return n < QUERIES ? n : QUERIES;
}

static void attend_span(const problem *p, int r, int head, int from, int span, part *to) {
    float keys[MAX_DIM * BLOCK] __attribute__((aligned(64)));
    float values[BLOCK * (MAX_DIM + BLOCK)] __attribute__((aligned(64)));
    float queries[QUERIES * MAX_DIM] __attribute__((aligned(64)));
    float weights[QUERIES * BLOCK] __attribute__((aligned(64)));
    float *most = to->most, *sum = to->sum, *sums = to->sums;
    int begin[QUERIES], end[QUERIES], first = INT32_MAX, last = 0;
    int dim = rounded(p->dim, DEPTH), width = rounded(p->value_dim, BLOCK);
    int n = count_queries(p, r, from), n_padded = rounded(n, TILE), n_keys = count_keys(p, r);
    const int32_t *pages = p->page_table + (int64_t)r * p->page_table_stride;

    for (int i = 0; i < n_padded; i++) {
        int at = from + (i < n ? i : 0); /* the padding repeats the first query */
        int token = p->start[r] + at / p->group, query_head = head * p->group + at % p->group;
        const element *q = p->q + token * p->query.outer + query_head * p->query.head;
        for (int d = 0; d < dim; d += LANES)
            *(floats *)(queries + i * dim + d) = widen_some(q + d, p->dim - d) * p->scale;
        end[i] = p->position[token] < n_keys ? p->position[token] + 1 : n_keys;
        begin[i] = p->window && end[i] > p->window ? end[i] - p->window : 0;
        if (end[i] > last) last = end[i];
        if (begin[i] < first) first = begin[i];
        most[i] = p->sinks && !span ? p->sinks[query_head] : LEAST;
        sum[i] = p->sinks && !span ? 1.f : 0.f;
    }
    if (first < span * SPAN) first = span * SPAN;
    if (last > (span + 1) * SPAN) last = (span + 1) * SPAN;
    memset(sums, 0, n_padded * width * sizeof(float));
    for (int at = first / BLOCK * BLOCK; at < last; at += BLOCK) {
        int left = last - at, n_here = left < BLOCK ? left : BLOCK;
        int n_next = left - n_here < BLOCK ? left - n_here : BLOCK;
        block here = find_block(p, head, pages, at, n_here), next = find_block(p, head, pages, at + BLOCK, n_next);
        if (n_padded == TILE) {
            score_few(p, queries, TILE, dim, &here, &next, weights);
        } else if (n_padded == FEW) {
            score_few(p, queries, FEW, dim, &here, &next, weights);
        } else {
            read_keys(&here.key, n_here, p->dim, keys);
            read_values(&here.value, n_here, p->value_dim, values, width);
            for (int i = 0; i < n_padded; i += TILE)
                multiply(queries + i * dim, dim, keys, BLOCK, dim, weights + i * BLOCK, BLOCK, 0);
        }
        for (int i = 0; i < n_padded; i++) {
            float shrinks = weigh(p, weights + i * BLOCK, at, begin[i], end[i], most + i, sum + i);
            if (shrinks != 1.f)
                for (int d = 0; d < width; d += LANES) *(floats *)(sums + i * width + d) *= shrinks;
        }
        for (int i = 0; i < n_padded; i += TILE)
            if (n_padded <= FEW)
                add_values(weights + i * BLOCK, &here.value, n_here, p->value_dim, sums + i * width, width);
            else
                for (int d = 0; d < width; d += BLOCK)
                    multiply(weights + i * BLOCK, BLOCK, values + d, width, BLOCK, sums + i * width + d, width, 1);
    }
}

/* Adds the next span of a row to the ones before it. */
static void join(part *before, const part *next, int n, int width) {
    for (int i = 0; i < n; i++) {
        if (next->sum[i] == 0.f) continue;
        float most = next->most[i] > before->most[i] ? next->most[i] : before->most[i];
        float old = exponential(filled(before->most[i] - most))[0], new = exponential(filled(next->most[i] - most))[0];
        before->most[i] = most;
        before->sum[i] = before->sum[i] * old + next->sum[i] * new;
        for (int d = 0; d < width; d += LANES) {
            floats *sum = (floats *)(before->sums + i * width + d);
            *sum = *sum * old + *(const floats *)(next->sums + i * width + d) * new;
        }
    }
}

/* Returns 0, or 1 where there is no memory for the parts of long rows. */
int attend(const problem *p) {
    int n_groups = rounded(p->max_count * p->group, QUERIES) / QUERIES; /* of a row's queries; an item is one of them */
    int n_items = p->n_rows * p->n_kv * n_groups, n_spans = 1, width = rounded(p->value_dim, BLOCK), n_split = 0;
    int *split = malloc(sizeof(int) * (p->n_rows + 1)); /* where the parts of each long row begin */
    if (!split) return 1;
    for (int r = 0; r < p->n_rows; r++) {
        int n = count_spans(p, r);
        split[r] = n_split;
        if (n > 1 && p->count[r]) n_split += n * p->n_kv * n_groups;
        if (n > n_spans && p->count[r]) n_spans = n;
    }
    part *parts = n_split ? malloc(sizeof(part) * n_split) : NULL;
    if (n_split && !parts) {
        free(split);
        return 1;
    }
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1)
        for (int each = 0; each < n_items * n_spans; each++) {
            int item = each % n_items, span = each / n_items;
            int from = item % n_groups * QUERIES, head = item / n_groups % p->n_kv, r = item / n_groups / p->n_kv;
            int n = count_spans(p, r);
            if (span >= n || from >= p->count[r] * p->group) continue;
            if (n > 1) {
                attend_span(p, r, head, from, span, parts + split[r] + (item - r * p->n_kv * n_groups) * n + span);
            } else {
                part whole __attribute__((aligned(64)));
                attend_span(p, r, head, from, 0, &whole);
                finish(p, r, head, from, count_queries(p, r, from), width, &whole);
            }
        }
#pragma omp for schedule(dynamic, 1)
        for (int item = 0; item < (n_split ? n_items : 0); item++) {
            int from = item % n_groups * QUERIES, head = item / n_groups % p->n_kv, r = item / n_groups / p->n_kv;
            int n = count_spans(p, r), here = count_queries(p, r, from);
            if (n == 1 || here <= 0) continue;
            part *own = parts + split[r] + (item - r * p->n_kv * n_groups) * n;
            for (int span = 1; span < n; span++) join(own, own + span, here, width);
            finish(p, r, head, from, here, width, own);
        }
    }
    free(parts);
    free(split);
    return 0;
}

/* Writes each token's keys or values to its slot, page * page_size + offset, unless that lies outside the pool. */
void scatter(
    char *pool, const char *new, const int64_t *slot, int64_t n_slots, int64_t page_size, int64_t n, int64_t n_heads,
    int64_t head_bytes, int64_t page_stride, int64_t head_stride, int64_t offset_stride, int64_t token_stride,
    int64_t new_head_stride) {
    for (int64_t t = 0; t < n; t++) {
        if (slot[t] < 0 || slot[t] >= n_slots) continue;
        char *to = pool + slot[t] / page_size * page_stride + slot[t] % page_size * offset_stride;
        for (int64_t h = 0; h < n_heads; h++)
            memcpy(to + h * head_stride, new + t * token_stride + h * new_head_stride, head_bytes);
    }
}
