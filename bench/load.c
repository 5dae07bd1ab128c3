/* A load generator for Kafka's protocol: one file, one thread, epoll, no library.
 *
 *   load produce|fetch|session --port N --topic NAME[,NAME...] [options]
 *
 * Closed loop: every connection keeps `--pipeline` requests in flight.  Open loop (`--rate`):
 * requests are due at fixed times and latency counts from the time a request was *due*, so a
 * stalled server cannot hide its stall by slowing the generator down (coordinated omission).
 * Every response is read to its last byte: correlation ids must come back in order, error codes
 * must be zero.  Anything else ends the run with a message and exit code 1.
 * Compiled with -DWITH_TLS, `--tls 1` encrypts the connections, without a check of certificates.
 * Prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS /* a second binary, for machines with OpenSSL's headers */
#include <openssl/ssl.h>
#endif

enum { PRODUCE = 0, FETCH = 1, INIT_PRODUCER_ID = 22 };
enum { PRODUCE_VERSION = 11, FETCH_VERSION = 12, INIT_PRODUCER_ID_VERSION = 4 };
enum {
    CONNECTIONS_MAX = 4096,
    PIPELINE_MAX = 1024,
    SLOTS_MAX = 64,                      /* partitions in one request */
    TOPICS_MAX = 64,
    RESPONSE_BYTES_MAX = 128 << 20,
    RESTAMPED_BYTES_MAX = 64 << 10,      /* larger batches keep the timestamp they began with */
    DRAIN_SECONDS_MAX = 30,
    UNANSWERED = 3, /* the exit code if that was not enough */
    RETRIES_MAX = 100,
};
#define SECOND 1000000000ull

static struct {
    const char *mode, *host, *topics[TOPICS_MAX];
    int topic_count, port, connections, pipeline, partitions, per_request, records, size;
    int idempotent, max_bytes, acks, tls;
    double seconds, warmup, rate;
    uint64_t count;
} option = {.host = "127.0.0.1", .connections = 1, .pipeline = 1, .partitions = 1, .acks = 1,
            .per_request = 1, .records = 1, .size = 100, .max_bytes = 1 << 20, .seconds = 5,
            .count = UINT64_MAX};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static int64_t wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

static double cpu_seconds(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_utime.tv_sec + use.ru_stime.tv_sec +
           (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void *allocate(size_t size) {
    void *memory = calloc(1, size);
    if (!memory) die("out of memory");
    return memory;
}

/* ---- CRC32C ---- */

static uint32_t crc_table[256];
static uint32_t (*crc32c)(const uint8_t *data, size_t size);

static uint32_t crc32c_software(const uint8_t *data, size_t size) {
    uint32_t crc = ~0u;
    while (size--) crc = crc_table[(crc ^ *data++) & 255] ^ (crc >> 8);
    return ~crc;
}

#ifdef __x86_64__
#include <nmmintrin.h>
__attribute__((target("sse4.2"))) static uint32_t crc32c_hardware(const uint8_t *data,
                                                                  size_t size) {
    uint64_t crc = 0xffffffffu, word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    while (size--) crc = _mm_crc32_u8((uint32_t)crc, *data++);
    return ~(uint32_t)crc;
}
#endif

static void choose_crc(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82f63b78u & -(crc & 1));
        crc_table[byte] = crc;
    }
    crc32c = crc32c_software;
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) crc32c = crc32c_hardware;
#endif
    if (crc32c((const uint8_t *)"123456789", 9) != 0xe3069283u) die("wrong CRC32C");
}

/* ---- writing ---- */

struct buffer {
    uint8_t *data;
    size_t length, capacity;
};

static void reserve(struct buffer *b, size_t more) {
    if (b->length + more <= b->capacity) return;
    b->capacity = (b->length + more) * 2;
    b->data = realloc(b->data, b->capacity);
    if (!b->data) die("out of memory");
}

static void put_bytes(struct buffer *b, const void *data, size_t size) {
    reserve(b, size);
    memcpy(b->data + b->length, data, size);
    b->length += size;
}

static void set_int(uint8_t *at, int size, uint64_t value) {
    for (int i = 0; i < size; i++) at[i] = value >> 8 * (size - 1 - i);
}

static void put_int(struct buffer *b, int size, int64_t value) {
    uint8_t bytes[8];
    set_int(bytes, size, value);
    put_bytes(b, bytes, size);
}

static void put_uvarint(struct buffer *b, uint64_t value) {
    for (; value > 127; value >>= 7) put_int(b, 1, (value & 127) | 128);
    put_int(b, 1, value);
}

static void put_varint(struct buffer *b, int64_t value) {
    put_uvarint(b, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

static void put_string(struct buffer *b, const char *text) {
    put_uvarint(b, strlen(text) + 1);
    put_bytes(b, text, strlen(text));
}

static void put_header(struct buffer *b, int key, int version, int32_t correlation) {
    put_int(b, 4, 0); /* the frame's size, set by close_frame */
    put_int(b, 2, key);
    put_int(b, 2, version);
    put_int(b, 4, correlation);
    put_int(b, 2, 4);
    put_bytes(b, "load", 4);
    put_uvarint(b, 0);
}

static void close_frame(struct buffer *b) { set_int(b->data, 4, b->length - 4); }

/* ---- reading ---- */

struct reader {
    const uint8_t *at, *end;
};

static int64_t get_int(struct reader *r, int size) {
    if (r->end - r->at < size) die("a response ends too early");
    uint64_t value = (int8_t)r->at[0];
    for (int i = 1; i < size; i++) value = value << 8 | r->at[i];
    r->at += size;
    return value;
}

static uint64_t get_uvarint(struct reader *r) {
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = get_int(r, 1);
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
    die("a varint of more than 5 bytes");
}

static const uint8_t *skip(struct reader *r, size_t size) {
    const uint8_t *at = r->at;
    if ((size_t)(r->end - r->at) < size) die("a response ends too early");
    r->at += size;
    return at;
}

static void skip_tags(struct reader *r) {
    for (uint64_t count = get_uvarint(r); count; count--) {
        get_uvarint(r);
        skip(r, get_uvarint(r));
    }
}

/* The bytes of a compact nullable string, bytes or records field. */
static const uint8_t *get_compact(struct reader *r, size_t *size) {
    uint64_t length = get_uvarint(r);
    *size = length ? length - 1 : 0;
    return skip(r, *size);
}

static uint64_t get_count(struct reader *r) {
    uint64_t count = get_uvarint(r);
    return count ? count - 1 : 0;
}

static void check_error(int error, const char *where) {
    if (error) die("%s answered error code %d", where, error);
}

static void check_end(struct reader *r) {
    if (r->at != r->end) die("%zd bytes left behind a response", r->end - r->at);
}

/* ---- record batches ---- */

enum { BATCH_CRC = 17, BATCH_COVERED = 21, BATCH_LAST_DELTA = 23, BATCH_TIME = 27,
       BATCH_PRODUCER = 43, BATCH_SEQUENCE = 53, BATCH_RECORDS = 61 };

static void seal_batch(uint8_t *batch, size_t size, int64_t producer_id, int epoch, int sequence) {
    int64_t time = wall_ms();
    set_int(batch + BATCH_TIME, 8, time);
    set_int(batch + BATCH_TIME + 8, 8, time);
    set_int(batch + BATCH_PRODUCER, 8, producer_id);
    set_int(batch + BATCH_PRODUCER + 8, 2, epoch);
    set_int(batch + BATCH_SEQUENCE, 4, sequence);
    set_int(batch + BATCH_CRC, 4, crc32c(batch + BATCH_COVERED, size - BATCH_COVERED));
}

static void make_batch(struct buffer *b) {
    struct buffer record = {0};
    uint8_t *value = allocate(option.size ? option.size : 1);
    for (int i = 0; i < option.size; i++) value[i] = "penstock"[i & 7];
    for (int i = 0; i < BATCH_RECORDS; i++) put_int(b, 1, 0);
    for (int i = 0; i < option.records; i++) {
        record.length = 0;
        put_int(&record, 1, 0);
        put_varint(&record, 0);
        put_varint(&record, i);
        put_varint(&record, -1);
        put_varint(&record, option.size);
        put_bytes(&record, value, option.size);
        put_varint(&record, 0);
        put_varint(b, record.length);
        put_bytes(b, record.data, record.length);
    }
    set_int(b->data + 8, 4, b->length - 12);
    set_int(b->data + 12, 4, -1);
    b->data[16] = 2;
    set_int(b->data + BATCH_LAST_DELTA, 4, option.records - 1);
    set_int(b->data + BATCH_RECORDS - 4, 4, option.records);
    seal_batch(b->data, b->length, -1, -1, -1);
    free(record.data);
    free(value);
}

/* ---- statistics ---- */

enum { HISTOGRAM_STEPS = 64, HISTOGRAM_SIZE = 64 * HISTOGRAM_STEPS };
static struct {
    uint64_t counts[HISTOGRAM_SIZE], total, max, sum, bytes;
    double cpu_began;
} stats;

/* Below 64 exact, above with 64 steps per power of two: at most 1.6 % off. */
static int bucket_of(uint64_t ns) {
    if (ns < HISTOGRAM_STEPS) return ns;
    int power = 63 - __builtin_clzll(ns);
    return (power - 5) * HISTOGRAM_STEPS + (ns >> (power - 6)) - HISTOGRAM_STEPS;
}

static uint64_t bucket_top(int bucket) {
    if (bucket < HISTOGRAM_STEPS) return bucket;
    int power = bucket / HISTOGRAM_STEPS + 5;
    return ((uint64_t)(bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS + 1) << (power - 6)) - 1;
}

static void note(uint64_t ns) {
    stats.counts[bucket_of(ns)]++;
    stats.total++;
    stats.sum += ns;
    if (ns > stats.max) stats.max = ns;
}

static double percentile_us(double part) {
    uint64_t rank = (uint64_t)(part * stats.total), seen = 0;
    for (int i = 0; i < HISTOGRAM_SIZE; i++) {
        seen += stats.counts[i];
        if (seen > rank) return (bucket_top(i) < stats.max ? bucket_top(i) : stats.max) / 1e3;
    }
    return stats.max / 1e3;
}

static void begin_measuring(void) {
    memset(&stats, 0, sizeof stats);
    stats.cpu_began = cpu_seconds();
}

static void report(double seconds, uint64_t completed, uint64_t unsent) {
    printf("{\"mode\":\"%s\",\"connections\":%d,\"pipeline\":%d,\"seconds\":%.3f,"
           "\"requests\":%llu,\"requests_per_s\":%.1f,\"mb_per_s\":%.3f,"
           "\"mean_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,"
           "\"rate\":%.1f,\"unsent\":%llu,\"errors\":0,\"cpu_s\":%.3f}\n",
           option.mode, option.connections, option.pipeline, seconds,
           (unsigned long long)completed, completed / seconds, stats.bytes / 1e6 / seconds,
           stats.total ? stats.sum / 1e3 / stats.total : 0, percentile_us(0.5),
           percentile_us(0.99), percentile_us(0.999), stats.max / 1e3, option.rate,
           (unsigned long long)unsent, cpu_seconds() - stats.cpu_began);
}

/* ---- connections ---- */

struct connection {
    int fd, index, in_flight, polls_write, slots;
    int32_t correlation, expected;
    struct buffer out, in, frame;
    size_t out_sent, batch_at[SLOTS_MAX], batch_size, offset_at;
    uint64_t *due; /* ring: when each request in flight was sent, or was due */
    int64_t producer_id, fetch_offset;
    int producer_epoch;
    int32_t sequence[SLOTS_MAX];
};

static int epoll;

#ifdef WITH_TLS
enum { DESCRIPTORS_MAX = 8192 };
static SSL *secured[DESCRIPTORS_MAX];

static void shake_hands(int fd) {
    static SSL_CTX *context;
    if (!context) context = SSL_CTX_new(TLS_client_method());
    if (fd >= DESCRIPTORS_MAX || !(secured[fd] = SSL_new(context))) die("too many connections");
    SSL_set_mode(secured[fd], SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_fd(secured[fd], fd);
    if (SSL_connect(secured[fd]) != 1) die("the TLS handshake failed");
}

/* The result as of send and recv: EAGAIN if the socket has to be ready first. */
static ssize_t outcome(int fd, int done) {
    if (done > 0) return done;
    int error = SSL_get_error(secured[fd], done);
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
    return -1;
}

static ssize_t send_some(int fd, const uint8_t *data, size_t size) {
    if (!option.tls) return send(fd, data, size, MSG_NOSIGNAL);
    return outcome(fd, SSL_write(secured[fd], data, size));
}

static ssize_t receive_some(int fd, uint8_t *data, size_t size) {
    if (!option.tls) return recv(fd, data, size, 0);
    size_t got = 0;
    do { /* what is decrypted already makes no socket readable */
        ssize_t more = outcome(fd, SSL_read(secured[fd], data + got, size - got));
        if (more < 0) return got ? (ssize_t)got : -1;
        got += more;
    } while (got < size && SSL_pending(secured[fd]));
    return got;
}
#else
#define shake_hands(fd) die("compiled without TLS")
#define send_some(fd, data, size) send(fd, data, size, MSG_NOSIGNAL)
#define receive_some(fd, data, size) recv(fd, data, size, 0)
#endif

static int connect_to_server(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(option.port)};
    if (inet_pton(AF_INET, option.host, &address.sin_addr) != 1) die("not IPv4: %s", option.host);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        die("connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct timeval limit = {.tv_sec = DRAIN_SECONDS_MAX};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (option.tls) shake_hands(fd);
    return fd;
}

static void read_exactly(int fd, uint8_t *at, size_t size) {
    while (size) {
        ssize_t got = receive_some(fd, at, size);
        if (got <= 0) die("recv: %s", got ? strerror(errno) : "the server closed the connection");
        at += got;
        size -= got;
    }
}

/* One request, one response, waiting: for setup and for the session mode. */
static struct reader call(int fd, struct buffer *request, struct buffer *response) {
    close_frame(request);
    for (size_t sent = 0; sent < request->length;) {
        ssize_t done = send_some(fd, request->data + sent, request->length - sent);
        if (done <= 0) die("send: %s", strerror(errno));
        sent += done;
    }
    uint8_t prefix[4];
    read_exactly(fd, prefix, 4);
    struct reader r = {prefix, prefix + 4};
    int64_t size = get_int(&r, 4);
    if (size < 5 || size > RESPONSE_BYTES_MAX) die("a response of %lld bytes", (long long)size);
    response->length = 0;
    reserve(response, size);
    read_exactly(fd, response->data, size);
    r = (struct reader){response->data, response->data + size};
    struct reader sent = {request->data + 8, request->data + 12};
    if (get_int(&r, 4) != get_int(&sent, 4)) die("a wrong correlation id");
    skip_tags(&r);
    return r;
}

static void init_producer_id(struct connection *c) {
    struct buffer request = {0}, response = {0};
    for (int attempt = 0; attempt < RETRIES_MAX; attempt++) {
        request.length = 0;
        put_header(&request, INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, attempt);
        put_uvarint(&request, 0); /* no transactional id */
        put_int(&request, 4, 60000);
        put_int(&request, 8, -1);
        put_int(&request, 2, -1);
        put_uvarint(&request, 0);
        struct reader r = call(c->fd, &request, &response);
        get_int(&r, 4);
        int error = get_int(&r, 2);
        c->producer_id = get_int(&r, 8);
        c->producer_epoch = get_int(&r, 2);
        skip_tags(&r);
        check_end(&r);
        if (!error) goto done;
        if (error != 14 && error != 15 && error != 7) check_error(error, "InitProducerId");
        usleep(100000); /* the coordinator is still loading */
    }
    die("no producer id after %d attempts", RETRIES_MAX);
done:
    free(request.data);
    free(response.data);
}

static void put_produce(struct connection *c, struct buffer *b, int first_partition) {
    struct buffer batch = {0};
    make_batch(&batch);
    put_header(b, PRODUCE, PRODUCE_VERSION, 0);
    put_uvarint(b, 0); /* no transactional id */
    put_int(b, 2, option.acks);
    put_int(b, 4, 30000);
    put_uvarint(b, 1 + 1);
    put_string(b, option.topics[0]);
    put_uvarint(b, option.per_request + 1);
    for (int slot = 0; slot < option.per_request; slot++) {
        put_int(b, 4, (first_partition + slot) % option.partitions);
        put_uvarint(b, batch.length + 1);
        c->batch_at[slot] = b->length;
        put_bytes(b, batch.data, batch.length);
        put_uvarint(b, 0);
    }
    put_uvarint(b, 0);
    put_uvarint(b, 0);
    c->slots = option.per_request;
    c->batch_size = batch.length;
    free(batch.data);
}

static void put_fetch_partition(struct buffer *b, int partition, int64_t offset) {
    put_int(b, 4, partition);
    put_int(b, 4, -1);
    put_int(b, 8, offset);
    put_int(b, 4, -1);
    put_int(b, 8, -1);
    put_int(b, 4, option.max_bytes);
    put_uvarint(b, 0);
}

static void put_fetch_head(struct buffer *b, int32_t correlation, int session, int session_epoch) {
    put_header(b, FETCH, FETCH_VERSION, correlation);
    put_int(b, 4, -1);
    put_int(b, 4, 500);
    put_int(b, 4, 1);
    put_int(b, 4, option.max_bytes);
    put_int(b, 1, 0);
    put_int(b, 4, session);
    put_int(b, 4, session_epoch);
}

static void put_fetch_tail(struct buffer *b) {
    put_uvarint(b, 1); /* nothing forgotten */
    put_string(b, "");
    put_uvarint(b, 0);
}

static void put_single_fetch(struct buffer *b, int32_t correlation, int session, int epoch,
                             int partition, int64_t offset) {
    put_fetch_head(b, correlation, session, epoch);
    put_uvarint(b, 1 + 1);
    put_string(b, option.topics[0]);
    put_uvarint(b, 1 + 1);
    put_fetch_partition(b, partition, offset);
    put_uvarint(b, 0);
    put_fetch_tail(b);
}

static void open_connection(struct connection *c, int index) {
    c->fd = connect_to_server();
    c->index = index;
    c->producer_id = -1;
    c->producer_epoch = -1;
    c->due = allocate(option.pipeline * sizeof *c->due);
    if (option.idempotent) init_producer_id(c);
    int first = (int)((long)index * option.per_request % option.partitions);
    if (!strcmp(option.mode, "produce")) {
        put_produce(c, &c->frame, first);
    } else {
        put_single_fetch(&c->frame, 0, 0, -1, first, 0);
        /* Behind the offset: the rest of its partition, the topic's tags, the tail. */
        c->offset_at = c->frame.length - (8 + 4 + 8 + 4 + 1) - 1 - 3;
    }
    close_frame(&c->frame);
    reserve(&c->in, 256 << 10);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
}

/* ---- responses ---- */

static void read_produce(struct reader *r, int partitions) {
    size_t ignored;
    int seen = 0;
    for (uint64_t topics = get_count(r); topics; topics--) {
        get_compact(r, &ignored);
        for (uint64_t count = get_count(r); count; count--, seen++) {
            get_int(r, 4);
            check_error(get_int(r, 2), "Produce");
            if (get_int(r, 8) < 0) die("Produce answered without an offset");
            skip(r, 16);
            if (get_count(r)) die("Produce answered record errors");
            get_compact(r, &ignored);
            skip_tags(r);
        }
        skip_tags(r);
    }
    get_int(r, 4);
    skip_tags(r);
    check_end(r);
    if (seen != partitions) die("%d partitions answered of %d", seen, partitions);
}

/* The offset behind the last whole batch; checks the first batch's CRC. */
static int64_t walk_batches(const uint8_t *records, size_t size) {
    int64_t next = -1;
    for (size_t at = 0; at + BATCH_RECORDS <= size;) {
        struct reader r = {records + at, records + size};
        int64_t base = get_int(&r, 8), length = get_int(&r, 4) + 12;
        if (length < BATCH_RECORDS) die("a batch of %lld bytes", (long long)length);
        if (at + length > size) break; /* cut off by the limit */
        r.at = records + at + BATCH_CRC;
        if (at == 0 && (uint32_t)get_int(&r, 4) !=
                           crc32c(records + BATCH_COVERED, length - BATCH_COVERED))
            die("a batch with a wrong CRC");
        r.at = records + at + BATCH_LAST_DELTA;
        next = base + get_int(&r, 4) + 1;
        at += length;
    }
    return next;
}

struct fetched {
    int session;
    uint64_t partitions, bytes;
    int64_t next, high_watermark;
};

static struct fetched read_fetch(struct reader *r) {
    struct fetched got = {.next = -1, .high_watermark = -1};
    size_t size;
    get_int(r, 4);
    check_error(get_int(r, 2), "Fetch");
    got.session = get_int(r, 4);
    for (uint64_t topics = get_count(r); topics; topics--) {
        get_compact(r, &size);
        for (uint64_t count = get_count(r); count; count--, got.partitions++) {
            get_int(r, 4);
            check_error(get_int(r, 2), "Fetch");
            got.high_watermark = get_int(r, 8);
            skip(r, 16);
            if (get_count(r)) die("Fetch answered aborted transactions");
            get_int(r, 4);
            const uint8_t *records = get_compact(r, &size);
            got.bytes += size;
            if (size) got.next = walk_batches(records, size);
            skip_tags(r);
        }
        skip_tags(r);
    }
    skip_tags(r);
    check_end(r);
    return got;
}

static void read_response(struct connection *c, const uint8_t *body, size_t size) {
    struct reader r = {body, body + size};
    int32_t correlation = get_int(&r, 4);
    if (correlation != c->expected)
        die("correlation id %d where %d was due", correlation, c->expected);
    c->expected++;
    skip_tags(&r);
    if (!c->offset_at) {
        read_produce(&r, c->slots);
        stats.bytes += c->batch_size * c->slots;
        return;
    }
    struct fetched got = read_fetch(&r);
    if (got.next < 0) die("Fetch at %lld answered nothing", (long long)c->fetch_offset);
    stats.bytes += got.bytes;
    c->fetch_offset = got.next >= got.high_watermark ? 0 : got.next; /* round and round */
}

/* ---- the loop ---- */

static struct {
    struct connection *connections, **idle; /* a ring of free places: open loop only */
    uint64_t idle_head, idle_tail, issued, answered, next_due, completed;
    uint64_t began, measure_from, stop_at;
    int stopping, timer;
} load;

static void enqueue(struct connection *c, uint64_t due) {
    uint8_t *frame = c->frame.data;
    set_int(frame + 8, 4, c->correlation);
    if (c->offset_at) {
        set_int(frame + c->offset_at, 8, c->fetch_offset);
    } else if (c->batch_size <= RESTAMPED_BYTES_MAX || option.idempotent) {
        for (int slot = 0; slot < c->slots; slot++) {
            seal_batch(frame + c->batch_at[slot], c->batch_size, c->producer_id,
                       c->producer_epoch, option.idempotent ? c->sequence[slot] : -1);
            c->sequence[slot] = (c->sequence[slot] + option.records) & 0x7fffffff;
        }
    }
    put_bytes(&c->out, frame, c->frame.length);
    c->due[(uint32_t)c->correlation++ % option.pipeline] = due;
    c->in_flight++;
    load.issued++;
}

static void flush(struct connection *c) {
    while (c->out_sent < c->out.length) {
        ssize_t done = send_some(c->fd, c->out.data + c->out_sent, c->out.length - c->out_sent);
        if (done < 0 && errno == EAGAIN) break;
        if (done <= 0) die("send: %s", strerror(errno));
        c->out_sent += done;
    }
    int pending = c->out_sent < c->out.length;
    if (!pending) c->out.length = c->out_sent = 0;
    if (pending != c->polls_write) {
        struct epoll_event event = {.events = EPOLLIN | (pending ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
        c->polls_write = pending;
    }
}

static void issue_due(uint64_t now) {
    uint64_t capacity = (uint64_t)option.connections * option.pipeline;
    while (load.idle_head != load.idle_tail && !load.stopping && load.issued < option.count) {
        uint64_t due = load.began + (uint64_t)(load.next_due * (SECOND / option.rate));
        if (due > now || due >= load.stop_at) return;
        struct connection *c = load.idle[load.idle_head++ % capacity];
        load.next_due++;
        enqueue(c, due);
        flush(c);
    }
}

static void answered(struct connection *c, uint64_t now) {
    uint64_t due = c->due[(uint32_t)(c->expected - 1) % option.pipeline];
    c->in_flight--;
    load.answered++;
    /* Open loop: every request due in the window counts, however late its answer is. */
    if (option.rate ? due >= load.measure_from : now >= load.measure_from && !load.stopping) {
        note(now - due);
        load.completed++;
    }
    if (option.rate)
        load.idle[load.idle_tail++ % ((uint64_t)option.connections * option.pipeline)] = c;
    else if (!load.stopping && load.issued < option.count)
        enqueue(c, now);
}

static void receive(struct connection *c) {
    ssize_t got = receive_some(c->fd, c->in.data + c->in.length, c->in.capacity - c->in.length);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("recv: %s", got ? strerror(errno) : "the server closed the connection");
    c->in.length += got;
    uint64_t now = now_ns();
    size_t at = 0;
    while (c->in.length - at >= 4) {
        struct reader r = {c->in.data + at, c->in.data + at + 4};
        int64_t size = get_int(&r, 4);
        if (size < 5 || size > RESPONSE_BYTES_MAX) die("a response of %lld bytes", (long long)size);
        if (c->in.length - at < (size_t)size + 4) {
            if (c->in.capacity < (size_t)size + 4) reserve(&c->in, size + 4);
            break;
        }
        if (!c->in_flight) die("a response nobody asked for");
        read_response(c, c->in.data + at + 4, size);
        answered(c, now);
        at += size + 4;
    }
    memmove(c->in.data, c->in.data + at, c->in.length - at);
    c->in.length -= at;
    flush(c);
}

static void start_timer(void) {
    uint64_t every = (uint64_t)(SECOND / option.rate);
    if (every < 50000) every = 50000;
    struct itimerspec spec = {{every / SECOND, every % SECOND}, {every / SECOND, every % SECOND}};
    load.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (load.timer < 0 || timerfd_settime(load.timer, 0, &spec, NULL)) die("timerfd");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, load.timer, &event);
}

static void start_load(void) {
    epoll = epoll_create1(EPOLL_CLOEXEC);
    load.connections = allocate(option.connections * sizeof *load.connections);
    load.idle = allocate((size_t)option.connections * option.pipeline * sizeof *load.idle);
    for (int i = 0; i < option.connections; i++) open_connection(&load.connections[i], i);
    load.began = now_ns();
    load.measure_from = load.began + (uint64_t)(option.warmup * SECOND);
    load.stop_at = load.measure_from + (uint64_t)(option.seconds * SECOND);
    if (option.rate) start_timer();
    for (int depth = 0; depth < option.pipeline; depth++)
        for (int i = 0; i < option.connections; i++) {
            if (option.rate)
                load.idle[load.idle_tail++] = &load.connections[i];
            else
                enqueue(&load.connections[i], load.began);
        }
    for (int i = 0; i < option.connections; i++) flush(&load.connections[i]);
}

/* What was due and never found a free connection counts with the time it has waited so far. */
static uint64_t note_unsent(void) {
    uint64_t unsent = 0, now = now_ns();
    for (; option.rate; unsent++, load.next_due++) {
        uint64_t due = load.began + (uint64_t)(load.next_due * (SECOND / option.rate));
        if (due >= load.stop_at || load.issued >= option.count) break;
        if (due >= load.measure_from) note(now - due);
    }
    return unsent;
}

static void run_load(void) {
    struct epoll_event events[256];
    uint64_t expirations, ended = 0;
    int measuring = 0;
    for (start_load();;) {
        int ready = epoll_wait(epoll, events, 256, 100);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                if (read(load.timer, &expirations, sizeof expirations) < 0) continue;
            } else {
                if (events[i].events & EPOLLOUT) flush(c);
                if (events[i].events & ~EPOLLOUT) receive(c);
            }
        }
        uint64_t now = now_ns();
        if (!measuring && now >= load.measure_from) {
            measuring = 1;
            begin_measuring();
            load.completed = 0;
        }
        if (option.rate) issue_due(now);
        int all_sent = load.issued >= option.count && load.answered == load.issued;
        if (!load.stopping && (now >= load.stop_at || all_sent)) load.stopping = 1, ended = now;
        if (load.stopping && load.answered == load.issued) break;
        if (load.stopping && now > ended + DRAIN_SECONDS_MAX * SECOND) {
            fprintf(stderr, "%llu requests without an answer %d s after the end\n",
                    (unsigned long long)(load.issued - load.answered), DRAIN_SECONDS_MAX);
            exit(UNANSWERED);
        }
    }
    uint64_t unsent = note_unsent();
    report((ended - load.measure_from) / 1e9, load.completed, unsent);
}

/* ---- incremental fetch sessions ---- */

static int open_session(int fd, int32_t *correlation, struct buffer *out, struct buffer *in) {
    put_fetch_head(out, ++*correlation, 0, 0);
    put_uvarint(out, option.topic_count + 1);
    for (int topic = 0; topic < option.topic_count; topic++) {
        put_string(out, option.topics[topic]);
        put_uvarint(out, option.partitions + 1);
        for (int i = 0; i < option.partitions; i++) put_fetch_partition(out, i, 0);
        put_uvarint(out, 0);
    }
    put_fetch_tail(out);
    struct reader r = call(fd, out, in);
    struct fetched got = read_fetch(&r);
    if (!got.session) die("the server gave no fetch session");
    return got.session;
}

/* One record into one partition, then the incremental fetch that must bring it: only the fetch
 * is timed.  The session holds topics x partitions, all silent but the first. */
static void run_session(void) {
    struct connection c = {.fd = connect_to_server(), .producer_id = -1, .producer_epoch = -1};
    struct buffer out = {0}, in = {0}, produce = {0};
    int fd = connect_to_server(), epoch = 0;
    int32_t correlation = 0;
    int64_t offset = 0;
    uint64_t done = 0;
    put_produce(&c, &produce, 0);
    int session = open_session(fd, &correlation, &out, &in);
    uint64_t measure_from = now_ns() + (uint64_t)(option.warmup * SECOND);
    uint64_t stop_at = measure_from + (uint64_t)(option.seconds * SECOND), now = 0;
    for (int measuring = 0; now < stop_at && done < option.count;) {
        set_int(produce.data + 8, 4, ++correlation);
        struct reader r = call(c.fd, &produce, &in);
        read_produce(&r, c.slots);
        out.length = 0;
        epoch = epoch == INT32_MAX ? 1 : epoch + 1;
        put_single_fetch(&out, ++correlation, session, epoch, 0, offset);
        uint64_t began = now_ns();
        r = call(fd, &out, &in);
        struct fetched got = read_fetch(&r);
        now = now_ns();
        if (got.partitions != 1 || got.next <= offset) die("not the one record that is new");
        offset = got.next;
        if (!measuring && now >= measure_from) {
            measuring = 1;
            begin_measuring();
        } else if (measuring) {
            note(now - began);
            done++;
        }
    }
    report((now - measure_from) / 1e9, done, 0);
}

/* ---- options ---- */

static int within(const char *name, const char *text, long low, long high) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < low || value > high) die("%s: %ld to %ld, not %s", name, low, high, text);
    return value;
}

static void set_topics(char *text) {
    for (char *name = strtok(text, ","); name; name = strtok(NULL, ",")) {
        if (option.topic_count == TOPICS_MAX) die("more than %d topics", TOPICS_MAX);
        option.topics[option.topic_count++] = name;
    }
}

static void parse_options(int count, char **text) {
    if (count < 2) die("produce, fetch or session?");
    option.mode = text[1];
    for (int i = 2; i + 1 < count; i += 2) {
        const char *name = text[i];
        char *value = text[i + 1];
        if (!strcmp(name, "--host")) option.host = value;
        else if (!strcmp(name, "--port")) option.port = within(name, value, 1, 65535);
        else if (!strcmp(name, "--tls")) option.tls = within(name, value, 0, 1);
        else if (!strcmp(name, "--topic")) set_topics(value);
        else if (!strcmp(name, "--connections"))
            option.connections = within(name, value, 1, CONNECTIONS_MAX);
        else if (!strcmp(name, "--pipeline"))
            option.pipeline = within(name, value, 1, PIPELINE_MAX);
        else if (!strcmp(name, "--partitions"))
            option.partitions = within(name, value, 1, 1000000);
        else if (!strcmp(name, "--per-request"))
            option.per_request = within(name, value, 1, SLOTS_MAX);
        else if (!strcmp(name, "--records")) option.records = within(name, value, 1, 100000);
        else if (!strcmp(name, "--size")) option.size = within(name, value, 0, 64 << 20);
        else if (!strcmp(name, "--acks")) option.acks = within(name, value, -1, 1);
        else if (!strcmp(name, "--idempotent")) option.idempotent = within(name, value, 0, 1);
        else if (!strcmp(name, "--max-bytes"))
            option.max_bytes = within(name, value, 1, 100 << 20);
        else if (!strcmp(name, "--seconds")) option.seconds = atof(value);
        else if (!strcmp(name, "--warmup")) option.warmup = atof(value);
        else if (!strcmp(name, "--rate")) option.rate = atof(value);
        else if (!strcmp(name, "--count")) option.count = strtoull(value, NULL, 10);
        else die("unknown option %s", name);
    }
    if (count % 2) die("%s needs a value", text[count - 1]);
    if (!option.port || !option.topic_count) die("--port and --topic are needed");
    if (option.per_request > option.partitions) die("more partitions per request than there are");
    if (option.acks == 0) die("acks=0 has no answer to count");
    if (!strcmp(option.mode, "fetch")) option.pipeline = 1; /* an offset follows from an answer */
}

int main(int count, char **text) {
    parse_options(count, text);
    choose_crc();
    if (!strcmp(option.mode, "session"))
        run_session();
    else if (!strcmp(option.mode, "produce") || !strcmp(option.mode, "fetch"))
        run_load();
    else
        die("produce, fetch or session, not %s", option.mode);
    return 0;
}
