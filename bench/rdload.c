/* Produces or consumes through librdkafka for a while and prints one JSON object.
 *
 *   rdload LIBRARY produce|consume --bootstrap HOST:PORT --topic NAME [options]
 *
 * A loop in Python would measure Python: here librdkafka itself is the limit.  The library is the
 * one inside the confluent-kafka wheel, which has no headers; the few prototypes needed are
 * declared by hand (they are librdkafka's stable interface).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

enum { PRODUCER = 0, CONSUMER = 1, MSG_F_COPY = 2, QUEUE_FULL = -184 };
enum { BATCH = 1000, FLUSH_MS_MAX = 60000, SILENT_SECONDS_MAX = 30 };

static struct {
    rd_kafka_conf_t *(*conf_new)(void);
    int (*conf_set)(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
    void (*conf_set_dr_msg_cb)(rd_kafka_conf_t *,
                               void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
    rd_kafka_t *(*create)(int, rd_kafka_conf_t *, char *, size_t);
    rd_kafka_topic_t *(*topic_new)(rd_kafka_t *, const char *, void *);
    int (*produce)(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
    int (*poll)(rd_kafka_t *, int);
    int (*flush)(rd_kafka_t *, int);
    int (*last_error)(void);
    const char *(*err2str)(int);
    rd_kafka_queue_t *(*queue_new)(rd_kafka_t *);
    int (*consume_start_queue)(rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *);
    ssize_t (*consume_batch_queue)(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
    void (*message_destroy)(rd_kafka_message_t *);
    const char *(*version_str)(void);
} rd;

static struct {
    const char *bootstrap, *topic, *acks, *queue, *in_flight;
    int partitions, size;
    double seconds, warmup;
    uint64_t count;
} option = {.acks = "1", .queue = "100000", .in_flight = "1000000", .partitions = 1, .size = 100, .seconds = 5, .count = UINT64_MAX};

static uint64_t delivered, bytes, failed;
static int first_error;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("rdload: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu_s(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_utime.tv_sec + use.ru_stime.tv_sec +
           (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) die("no %s in this librdkafka", name);
    return found;
}

static void load_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) die("%s", dlerror());
    *(void **)&rd.conf_new = symbol(library, "rd_kafka_conf_new");
    *(void **)&rd.conf_set = symbol(library, "rd_kafka_conf_set");
    *(void **)&rd.conf_set_dr_msg_cb = symbol(library, "rd_kafka_conf_set_dr_msg_cb");
    *(void **)&rd.create = symbol(library, "rd_kafka_new");
    *(void **)&rd.topic_new = symbol(library, "rd_kafka_topic_new");
    *(void **)&rd.produce = symbol(library, "rd_kafka_produce");
    *(void **)&rd.poll = symbol(library, "rd_kafka_poll");
    *(void **)&rd.flush = symbol(library, "rd_kafka_flush");
    *(void **)&rd.last_error = symbol(library, "rd_kafka_last_error");
    *(void **)&rd.err2str = symbol(library, "rd_kafka_err2str");
    *(void **)&rd.queue_new = symbol(library, "rd_kafka_queue_new");
    *(void **)&rd.consume_start_queue = symbol(library, "rd_kafka_consume_start_queue");
    *(void **)&rd.consume_batch_queue = symbol(library, "rd_kafka_consume_batch_queue");
    *(void **)&rd.message_destroy = symbol(library, "rd_kafka_message_destroy");
    *(void **)&rd.version_str = symbol(library, "rd_kafka_version_str");
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char reason[512];
    if (rd.conf_set(conf, name, value, reason, sizeof reason)) die("%s", reason);
}

static rd_kafka_t *make_client(int type, rd_kafka_conf_t *conf) {
    char reason[512];
    set(conf, "bootstrap.servers", option.bootstrap);
    set(conf, "topic.metadata.refresh.interval.ms", "-1");
    rd_kafka_t *client = rd.create(type, conf, reason, sizeof reason);
    if (!client) die("%s", reason);
    return client;
}

static void report(const char *mode, double seconds, double cpu) {
    printf("{\"mode\":\"%s\",\"seconds\":%.3f,\"messages\":%llu,\"messages_per_s\":%.1f,"
           "\"mb_per_s\":%.3f,\"errors\":%llu,\"cpu_s\":%.3f,\"librdkafka\":\"%s\"}\n",
           mode, seconds, (unsigned long long)delivered, delivered / seconds,
           bytes / 1e6 / seconds, (unsigned long long)failed, cpu, rd.version_str());
    fflush(stdout);
    if (failed) die("%llu messages failed: %s", (unsigned long long)failed,
                    rd.err2str(first_error));
    _Exit(0); /* destroying a client waits for its threads; nothing is left to save */
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) {
        if (!failed++) first_error = message->err;
        return;
    }
    delivered++;
    bytes += message->len;
}

static void run_produce(void) {
    rd_kafka_conf_t *conf = rd.conf_new();
    set(conf, "acks", option.acks);
    set(conf, "queue.buffering.max.messages", option.queue);
    set(conf, "max.in.flight.requests.per.connection", option.in_flight);
    rd.conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = make_client(PRODUCER, conf);
    rd_kafka_topic_t *topic = rd.topic_new(client, option.topic, NULL);
    char *value = malloc(option.size);
    for (int i = 0; i < option.size; i++) value[i] = "penstock"[i & 7];
    double began = now_s() + option.warmup, stop_at = began + option.seconds, now = 0, cpu = 0;
    uint64_t produced = 0;
    for (int measuring = 0; produced < option.count; produced++) {
        /* The batcher gets a partition by turns: every partition carries the same load. */
        while (rd.produce(topic, produced % option.partitions, MSG_F_COPY, value, option.size,
                          NULL, 0, NULL)) {
            if (rd.last_error() != QUEUE_FULL) die("produce: %s", rd.err2str(rd.last_error()));
            rd.poll(client, 10);
        }
        if (produced % 256) continue;
        rd.poll(client, 0);
        now = now_s();
        if (!measuring && now >= began) {
            measuring = 1, began = now, cpu = cpu_s();
            delivered = bytes = 0;
        }
        if (now >= stop_at || failed) break;
    }
    if (option.count != UINT64_MAX) rd.flush(client, FLUSH_MS_MAX); /* all of them, then the time */
    report("produce", now_s() - began, cpu_s() - cpu);
}

static int take(rd_kafka_message_t *message) {
    if (message->err) die("consume: %s", rd.err2str(message->err));
    delivered++;
    bytes += message->len;
    rd.message_destroy(message);
    return 1;
}

/* From the first message on, until `--count` of them or the end of the time. */
static void run_consume(void) {
    rd_kafka_conf_t *conf = rd.conf_new();
    set(conf, "check.crcs", "true");
    rd_kafka_t *client = make_client(CONSUMER, conf);
    rd_kafka_topic_t *topic = rd.topic_new(client, option.topic, NULL);
    rd_kafka_queue_t *queue = rd.queue_new(client);
    rd_kafka_message_t *messages[BATCH];
    for (int i = 0; i < option.partitions; i++)
        if (rd.consume_start_queue(topic, i, 0, queue)) die("cannot consume partition %d", i);
    double began = now_s() + option.warmup, last = now_s(), now = last, cpu = 0;
    uint64_t taken = 0;
    for (int measuring = 0; !measuring || now < began + option.seconds;) {
        ssize_t got = rd.consume_batch_queue(queue, 100, messages, BATCH);
        if (got < 0) die("consume: %s", rd.err2str(rd.last_error()));
        now = now_s();
        for (ssize_t i = 0; i < got; i++)
            taken += take(messages[i]), last = now;
        if (now - last > SILENT_SECONDS_MAX) die("nothing arrives");
        if (!measuring && now >= began && delivered) {
            measuring = 1, began = now, cpu = cpu_s();
            delivered = bytes = 0;
        }
        if (taken >= option.count) break;
    }
    report("consume", now - began, cpu_s() - cpu);
}

int main(int count, char **text) {
    if (count < 3) die("which library, and produce or consume?");
    load_library(text[1]);
    for (int i = 3; i + 1 < count; i += 2) {
        const char *name = text[i], *value = text[i + 1];
        if (!strcmp(name, "--bootstrap")) option.bootstrap = value;
        else if (!strcmp(name, "--topic")) option.topic = value;
        else if (!strcmp(name, "--acks")) option.acks = value;
        else if (!strcmp(name, "--queue")) option.queue = value;
        else if (!strcmp(name, "--in-flight")) option.in_flight = value;
        else if (!strcmp(name, "--partitions")) option.partitions = atoi(value);
        else if (!strcmp(name, "--size")) option.size = atoi(value);
        else if (!strcmp(name, "--seconds")) option.seconds = atof(value);
        else if (!strcmp(name, "--warmup")) option.warmup = atof(value);
        else if (!strcmp(name, "--count")) option.count = strtoull(value, NULL, 10);
        else die("unknown option %s", name);
    }
    if (!option.bootstrap || !option.topic || option.partitions < 1 || option.size < 1)
        die("--bootstrap and --topic are needed, partitions and size above 0");
    if (!strcmp(text[2], "produce")) run_produce();
    if (!strcmp(text[2], "consume")) run_consume();
    die("produce or consume, not %s", text[2]);
}
