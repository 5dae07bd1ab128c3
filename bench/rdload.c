/* Works through librdkafka for a while and prints one JSON object.
 *
 *   rdload LIBRARY produce|pace|consume|group|commit|transact --bootstrap HOST:PORT --topic NAME
 *          [...]
 *
 * pace produces --rate messages a second, and reports the time from the moment at which a message was
 * due to its delivery report. produce and consume take partitions by number; group consumes as the only member of a group.
 * commit: --clients consumers commit an offset of each partition, one request after the other.
 * transact: --clients producers write transactions of --records records each.
 *
 * A loop in Python would measure Python: here librdkafka itself is the limit.  The library is the
 * one inside the confluent-kafka wheel, which has no headers; the few prototypes needed are
 * declared by hand (they are librdkafka's stable interface).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
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
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
} rd_kafka_topic_partition_t; /* more follows; it is only ever pointed to */
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
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

enum { LOADING = 14, NOT_COORDINATOR = 16 };
enum { PRODUCER = 0, CONSUMER = 1, MSG_F_COPY = 2, QUEUE_FULL = -184 };
enum { BATCH = 1000, FLUSH_MS_MAX = 60000, SILENT_SECONDS_MAX = 30, CLIENTS_MAX = 64 };

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
    rd_kafka_queue_t *(*queue_get_consumer)(rd_kafka_t *);
    int (*poll_set_consumer)(rd_kafka_t *);
    rd_kafka_topic_partition_list_t *(*list_new)(int);
    rd_kafka_topic_partition_t *(*list_add)(rd_kafka_topic_partition_list_t *, const char *,
                                            int32_t);
    int (*subscribe)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
    int (*commit)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *, int);
    rd_kafka_error_t *(*init_transactions)(rd_kafka_t *, int);
    rd_kafka_error_t *(*begin_transaction)(rd_kafka_t *);
    rd_kafka_error_t *(*commit_transaction)(rd_kafka_t *, int);
    const char *(*error_string)(const rd_kafka_error_t *);
} rd;

static struct {
    const char *bootstrap, *topic, *acks, *queue, *in_flight, *protocol, *authority;
    int partitions, size, clients, records;
    double seconds, warmup, rate;
    uint64_t count;
} option = {.acks = "1", .queue = "100000", .in_flight = "1000000", .protocol = "classic", .partitions = 1, .size = 100, .clients = 1, .records = 1, .seconds = 5, .count = UINT64_MAX};

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
    *(void **)&rd.queue_get_consumer = symbol(library, "rd_kafka_queue_get_consumer");
    *(void **)&rd.poll_set_consumer = symbol(library, "rd_kafka_poll_set_consumer");
    *(void **)&rd.list_new = symbol(library, "rd_kafka_topic_partition_list_new");
    *(void **)&rd.list_add = symbol(library, "rd_kafka_topic_partition_list_add");
    *(void **)&rd.subscribe = symbol(library, "rd_kafka_subscribe");
    *(void **)&rd.commit = symbol(library, "rd_kafka_commit");
    *(void **)&rd.init_transactions = symbol(library, "rd_kafka_init_transactions");
    *(void **)&rd.begin_transaction = symbol(library, "rd_kafka_begin_transaction");
    *(void **)&rd.commit_transaction = symbol(library, "rd_kafka_commit_transaction");
    *(void **)&rd.error_string = symbol(library, "rd_kafka_error_string");
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char reason[512];
    if (rd.conf_set(conf, name, value, reason, sizeof reason)) die("%s", reason);
}

static rd_kafka_t *make_client(int type, rd_kafka_conf_t *conf) {
    char reason[512];
    set(conf, "bootstrap.servers", option.bootstrap);
    set(conf, "topic.metadata.refresh.interval.ms", "-1");
    if (option.authority) {
        set(conf, "security.protocol", "ssl");
        set(conf, "ssl.ca.location", option.authority);
    }
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

/* Latencies in microseconds: one of every LATENCY_STEP messages. */
enum { LATENCY_STEP = 16 };
static double *latencies_us;
static size_t latencies, latencies_max;
static double measured_from;

static void on_paced_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    on_delivery(client, message, opaque);
    double due = (double)(uintptr_t)message->_private / 1e6;
    if (!message->_private || message->err || due < measured_from) return;
    if (latencies < latencies_max) latencies_us[latencies++] = (now_s() - due) * 1e6;
}

static int by_value(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void run_pace(void) {
    if (option.rate <= 0) die("--rate is needed");
    rd_kafka_conf_t *conf = rd.conf_new();
    set(conf, "acks", option.acks);
    set(conf, "queue.buffering.max.messages", "1000000");
    rd.conf_set_dr_msg_cb(conf, on_paced_delivery);
    rd_kafka_t *client = make_client(PRODUCER, conf);
    rd_kafka_topic_t *topic = rd.topic_new(client, option.topic, NULL);
    char *value = malloc(option.size);
    for (int i = 0; i < option.size; i++) value[i] = "penstock"[i & 7];
    latencies_max = (size_t)(option.rate * option.seconds / LATENCY_STEP) + 1024;
    latencies_us = malloc(latencies_max * sizeof *latencies_us);
    double began = now_s();
    measured_from = began + option.warmup;
    double stop_at = measured_from + option.seconds;
    for (uint64_t produced = 0;;) {
        double now = now_s();
        if (now >= stop_at || failed) break;
        while (began + produced / option.rate <= now) {
            double due = began + produced / option.rate;
            void *mark = NULL;
            if (produced % LATENCY_STEP == 0) mark = (void *)(uintptr_t)(due * 1e6);
            if (rd.produce(topic, produced % option.partitions, MSG_F_COPY, value, option.size,
                           NULL, 0, mark))
                die("produce: %s", rd.err2str(rd.last_error()));
            produced++;
        }
        rd.poll(client, 1);
    }
    rd.flush(client, FLUSH_MS_MAX);
    if (failed) die("%llu messages failed: %s", (unsigned long long)failed, rd.err2str(first_error));
    if (!latencies) die("no message was measured");
    qsort(latencies_us, latencies, sizeof *latencies_us, by_value);
    printf("{\"mode\":\"pace\",\"messages\":%llu,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,"
           "\"messages_per_s\":%.1f}\n",
           (unsigned long long)delivered, latencies_us[latencies / 2],
           latencies_us[(size_t)(latencies * 0.99)], latencies_us[latencies - 1],
           delivered / (now_s() - began));
    fflush(stdout);
    _Exit(0);
}

static int take(rd_kafka_message_t *message) {
    if (message->err) die("consume: %s", rd.err2str(message->err));
    delivered++;
    bytes += message->len;
    rd.message_destroy(message);
    return 1;
}

/* From the first message on, until `--count` of them or the end of the time. */
static void drain(const char *mode, rd_kafka_queue_t *queue) {
    rd_kafka_message_t *messages[BATCH];
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
    report(mode, now - began, cpu_s() - cpu);
}

static void run_consume(void) {
    rd_kafka_conf_t *conf = rd.conf_new();
    set(conf, "check.crcs", "true");
    rd_kafka_t *client = make_client(CONSUMER, conf);
    rd_kafka_topic_t *topic = rd.topic_new(client, option.topic, NULL);
    rd_kafka_queue_t *queue = rd.queue_new(client);
    for (int i = 0; i < option.partitions; i++)
        if (rd.consume_start_queue(topic, i, 0, queue)) die("cannot consume partition %d", i);
    drain("consume", queue);
}

static rd_kafka_conf_t *member_conf(const char *group) {
    rd_kafka_conf_t *conf = rd.conf_new();
    set(conf, "group.id", group);
    set(conf, "group.protocol", option.protocol);
    set(conf, "auto.offset.reset", "earliest");
    return conf;
}

static void run_group(void) {
    rd_kafka_conf_t *conf = member_conf(option.topic);
    set(conf, "check.crcs", "true");
    rd_kafka_t *client = make_client(CONSUMER, conf);
    rd.poll_set_consumer(client);
    rd_kafka_topic_partition_list_t *wanted = rd.list_new(1);
    rd.list_add(wanted, option.topic, -1);
    if (rd.subscribe(client, wanted)) die("cannot subscribe to %s", option.topic);
    drain("group", rd.queue_get_consumer(client));
}

/* Clients side by side: each counts what it has done while the measurement runs. */
static atomic_int measuring, stopping;
static atomic_ullong done_count;

static void check(const char *what, rd_kafka_error_t *error) {
    if (error) die("%s: %s", what, rd.error_string(error));
}

static void sleep_s(double seconds) {
    struct timespec t = {seconds, (seconds - (time_t)seconds) * 1e9};
    nanosleep(&t, NULL);
}

static void *commit_for_long(void *number) {
    char group[128];
    snprintf(group, sizeof group, "%s-%d", option.topic, (int)(intptr_t)number);
    rd_kafka_conf_t *conf = member_conf(group);
    set(conf, "enable.auto.commit", "false");
    rd_kafka_t *client = make_client(CONSUMER, conf);
    rd_kafka_topic_partition_list_t *offsets = rd.list_new(option.partitions);
    rd_kafka_topic_partition_t *placed[1024];
    for (int i = 0; i < option.partitions; i++) placed[i] = rd.list_add(offsets, option.topic, i);
    for (int64_t offset = 0; !stopping; offset++) {
        for (int i = 0; i < option.partitions; i++) placed[i]->offset = offset;
        int failure = rd.commit(client, offsets, 0);
        if (failure >= LOADING && failure <= NOT_COORDINATOR && !measuring) {
            sleep_s(0.05); /* its topic has just been made */
            continue;
        }
        if (failure) die("commit: %s", rd.err2str(failure));
        if (measuring) done_count++;
    }
    return NULL;
}

static void *transact_for_long(void *number) {
    char id[128], value[100] = {0};
    snprintf(id, sizeof id, "%s-%d", option.topic, (int)(intptr_t)number);
    rd_kafka_conf_t *conf = rd.conf_new();
    set(conf, "transactional.id", id);
    set(conf, "linger.ms", "0");
    rd_kafka_t *client = make_client(PRODUCER, conf);
    check("init", rd.init_transactions(client, FLUSH_MS_MAX));
    rd_kafka_topic_t *topic = rd.topic_new(client, option.topic, NULL);
    while (!stopping) {
        check("begin", rd.begin_transaction(client));
        for (int i = 0; i < option.records; i++)
            if (rd.produce(topic, i % option.partitions, MSG_F_COPY, value, sizeof value, NULL, 0,
                           NULL))
                die("produce: %s", rd.err2str(rd.last_error()));
        check("commit", rd.commit_transaction(client, FLUSH_MS_MAX));
        if (measuring) done_count++;
    }
    return NULL;
}

static void run_side_by_side(const char *mode, void *(*work)(void *)) {
    pthread_t thread;
    if (option.clients > CLIENTS_MAX || option.partitions > 1024) die("too many clients");
    for (int i = 0; i < option.clients; i++)
        if (pthread_create(&thread, NULL, work, (void *)(intptr_t)i)) die("no more threads");
    sleep_s(option.warmup);
    double began = now_s(), cpu = cpu_s();
    measuring = 1;
    sleep_s(option.seconds);
    measuring = 0;
    stopping = 1;
    delivered = done_count;
    report(mode, now_s() - began, cpu_s() - cpu);
}

int main(int count, char **text) {
    if (count < 3) die("which library, and what to do?");
    load_library(text[1]);
    for (int i = 3; i + 1 < count; i += 2) {
        const char *name = text[i], *value = text[i + 1];
        if (!strcmp(name, "--bootstrap")) option.bootstrap = value;
        else if (!strcmp(name, "--topic")) option.topic = value;
        else if (!strcmp(name, "--acks")) option.acks = value;
        else if (!strcmp(name, "--authority")) option.authority = value;
        else if (!strcmp(name, "--queue")) option.queue = value;
        else if (!strcmp(name, "--in-flight")) option.in_flight = value;
        else if (!strcmp(name, "--protocol")) option.protocol = value;
        else if (!strcmp(name, "--clients")) option.clients = atoi(value);
        else if (!strcmp(name, "--records")) option.records = atoi(value);
        else if (!strcmp(name, "--partitions")) option.partitions = atoi(value);
        else if (!strcmp(name, "--size")) option.size = atoi(value);
        else if (!strcmp(name, "--seconds")) option.seconds = atof(value);
        else if (!strcmp(name, "--warmup")) option.warmup = atof(value);
        else if (!strcmp(name, "--rate")) option.rate = atof(value);
        else if (!strcmp(name, "--count")) option.count = strtoull(value, NULL, 10);
        else die("unknown option %s", name);
    }
    if (!option.bootstrap || !option.topic || option.partitions < 1 || option.size < 1)
        die("--bootstrap and --topic are needed, partitions and size above 0");
    if (!strcmp(text[2], "produce")) run_produce();
    if (!strcmp(text[2], "pace")) run_pace();
    if (!strcmp(text[2], "consume")) run_consume();
    if (!strcmp(text[2], "group")) run_group();
    if (!strcmp(text[2], "commit")) run_side_by_side("commit", commit_for_long);
    if (!strcmp(text[2], "transact")) run_side_by_side("transact", transact_for_long);
    die("unknown mode %s", text[2]);
}
