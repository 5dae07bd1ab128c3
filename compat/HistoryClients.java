import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's own client in consume, transform, produce, over a node that dies, and its story.
 *
 * <p>Three groups read the topic "in", each in its own way, and write one output per input to a
 * topic of their own: in transactions or, as a copy that must be caught, without.
 *
 * <p>The arguments are the bootstrap address, the partitions of every topic, "transactions" or
 * "plain", and a seed. When standard input ends, the clients finish what there is to do, and read
 * everything to its end.
 */
public final class HistoryClients {
    static final String INPUT = "in";
    private static final int WORKERS = 2;
    private static final int FEED_RECORDS = 20;
    private static final int INPUTS_AHEAD_MAX = 400;
    private static final int POLL_RECORDS_MAX = 20;
    private static final int SESSION_MS = 1_500;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long WAIT_SECONDS_MAX = 180;
    private static final String COMMITTED = "read_committed";
    private static final String UNCOMMITTED = "read_uncommitted";

    final int partitions;
    final boolean transactions;
    final long seed;
    final HistoryStory story = new HistoryStory();
    final CountDownLatch over = new CountDownLatch(1);
    private final String bootstrap;
    private final CountDownLatch fedEnough = new CountDownLatch(1);
    private final Map<Pipeline, Long> processed = new EnumMap<>(Pipeline.class);

    private HistoryClients(String[] arguments) {
        bootstrap = arguments[0];
        partitions = Integer.parseInt(arguments[1]);
        transactions = arguments[2].equals("transactions");
        seed = Long.parseLong(arguments[3]);
    }

    public static void main(String[] arguments) throws Exception {
        new HistoryClients(arguments).live();
        System.exit(0); // a producer that was left behind may still be at work
    }

    /** How a group shares its input. */
    enum Pipeline {
        CLASSIC, COOPERATIVE, CONSUMER;

        String group() {
            return name().toLowerCase(Locale.ROOT);
        }

        String output() {
            return "out-" + group();
        }

        List<String> workers() {
            return IntStream.rangeClosed(1, WORKERS).mapToObj(i -> group() + "-" + i).toList();
        }

        Map<String, Object> membership() {
            if (this == CONSUMER) {
                return Map.of("group.id", group(), "group.protocol", "consumer");
            }
            Class<?> assignor =
                this == CLASSIC ? RangeAssignor.class : CooperativeStickyAssignor.class;
            return Map.of(
                "group.id", group(),
                "group.protocol", "classic",
                "partition.assignment.strategy", List.of(assignor.getName()),
                "session.timeout.ms", SESSION_MS,
                "heartbeat.interval.ms", SESSION_MS / 5
            );
        }
    }

    // -- the whole run

    private void live() throws Exception {
        Thread feeder = start("feeder", this::feed);
        List<Thread> threads = new ArrayList<>();
        for (Pipeline pipeline : Pipeline.values()) {
            for (String name : pipeline.workers()) {
                HistoryWorker worker = new HistoryWorker(this, pipeline, name);
                threads.add(start(name, worker::work));
            }
        }
        threads.add(start("reader", this::follow));
        threads.add(start("watcher", this::watch));
        waitForTheEndOfInput();
        fedEnough.countDown();
        feeder.join();
        try (Admin admin = Admin.create(settings(Map.of()))) {
            waitUntilAllIsProcessed(admin);
            over.countDown();
            for (Thread thread : threads) {
                thread.join();
            }
            for (Pipeline pipeline : Pipeline.values()) {
                progress(admin, "auditor", pipeline);
            }
            readToEnd(admin, COMMITTED);
            readToEnd(admin, UNCOMMITTED);
            if (transactions) {
                tellEpochs(admin);
            }
        }
        story.tell("done");
    }

    private static void waitForTheEndOfInput() throws IOException {
        while (System.in.read() >= 0) {
            continue;
        }
    }

    interface Body {
        void run() throws Exception;
    }

    /** A thread whose failure is told. */
    Thread start(String name, Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Throwable failure) {
                failure.printStackTrace();
                story.tell("violation", name + " failed: " + failure);
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Try again as long as the client says that this may help. */
    private static <T> T persist(Callable<T> call) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS_MAX);
        while (true) {
            try {
                return call.call();
            } catch (ExecutionException | RetriableException failure) {
                Throwable cause =
                    failure instanceof ExecutionException ? failure.getCause() : failure;
                if (!(cause instanceof RetriableException) || System.nanoTime() > until) {
                    throw failure;
                }
            }
        }
    }

    static void insist(Runnable call) throws Exception {
        persist(() -> {
            call.run();
            return null;
        });
    }

    // -- clients

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap,
            "reconnect.backoff.ms", 20,
            "reconnect.backoff.max.ms", 100,
            "retry.backoff.ms", 20,
            "retry.backoff.max.ms", 100
        ));
        settings.putAll(more);
        return settings;
    }

    KafkaProducer<String, String> producer(Map<String, Object> more) {
        return new KafkaProducer<>(settings(more), new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> settings = settings(Map.of(
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "isolation.level", COMMITTED,
            "fetch.max.wait.ms", 100,
            "max.poll.records", POLL_RECORDS_MAX
        ));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    void send(
        KafkaProducer<String, String> producer,
        String process,
        TopicPartition place,
        String value,
        Long transaction,
        List<Object> source
    ) {
        List<Object> words = HistoryStory.words(place);
        long sending = story.tell("send", process, words, value, transaction, source);
        producer.send(
            new ProducerRecord<>(place.topic(), place.partition(), null, value),
            (sent, failure) -> {
                if (failure == null) {
                    story.tell("sent", sending, sent.offset());
                }
            }
        );
    }

    ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer, String process) {
        long polling = story.tell("poll", process);
        ConsumerRecords<String, String> records = consumer.poll(POLL);
        if (!records.isEmpty()) {
            story.tell("polled", polling, HistoryStory.words(records));
        }
        return records;
    }

    private List<TopicPartition> places(String topic) {
        return IntStream.range(0, partitions).mapToObj(i -> new TopicPartition(topic, i)).toList();
    }

    private List<TopicPartition> everything() {
        List<TopicPartition> all = new ArrayList<>(places(INPUT));
        for (Pipeline pipeline : Pipeline.values()) {
            all.addAll(places(pipeline.output()));
        }
        return all;
    }

    // -- who feeds

    /** Numbers into the input topic, by an idempotent producer, until there are enough. */
    private void feed() throws Exception {
        Random chance = new Random(seed);
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int fed = 0; fedEnough.getCount() > 0; fed++) {
                TopicPartition place = new TopicPartition(INPUT, chance.nextInt(partitions));
                send(producer, "feeder", place, Integer.toString(fed), null, null);
                if (fed % FEED_RECORDS == 0) {
                    waitForRoom(fed);
                }
            }
            producer.flush();
        }
    }

    private synchronized void waitForRoom(long fed) throws InterruptedException {
        while (fedEnough.getCount() > 0 && fed - slowest() > INPUTS_AHEAD_MAX) {
            wait(POLL.toMillis());
        }
    }

    private long slowest() {
        long slowest = Long.MAX_VALUE;
        for (Pipeline pipeline : Pipeline.values()) {
            slowest = Math.min(slowest, processed.getOrDefault(pipeline, 0L));
        }
        return slowest;
    }

    // -- who looks on

    private void watch() throws Exception {
        try (Admin admin = Admin.create(settings(Map.of()))) {
            while (!over.await(POLL.toMillis(), TimeUnit.MILLISECONDS)) {
                for (Pipeline pipeline : Pipeline.values()) {
                    progress(admin, "watcher", pipeline);
                }
            }
        }
    }

    private Map<TopicPartition, Long> progress(Admin admin, String process, Pipeline pipeline)
        throws Exception {
        long fetching = story.tell("fetch", process, pipeline.group());
        var options = new ListConsumerGroupOffsetsOptions().requireStable(true);
        var wanted = new ListConsumerGroupOffsetsSpec().topicPartitions(places(INPUT));
        Map<TopicPartition, OffsetAndMetadata> found = persist(() ->
            admin.listConsumerGroupOffsets(Map.of(pipeline.group(), wanted), options)
                .partitionsToOffsetAndMetadata().get());
        Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
        long sum = 0;
        for (var each : found.entrySet()) { // what a transaction holds pending is left out
            OffsetAndMetadata committed = each.getValue();
            offsets.put(each.getKey(), committed == null ? null : Long.valueOf(committed.offset()));
            sum += committed == null ? 0 : committed.offset();
        }
        story.tell("fetched", fetching, HistoryStory.words(offsets));
        synchronized (this) {
            processed.put(pipeline, sum);
            notifyAll();
        }
        return offsets;
    }

    /** High watermarks. */
    private Map<TopicPartition, Long> ends(Admin admin, Collection<TopicPartition> places)
        throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        places.forEach(place -> wanted.put(place, OffsetSpec.latest()));
        var found = persist(() -> admin.listOffsets(wanted).all().get());
        Map<TopicPartition, Long> ends = new HashMap<>();
        found.forEach((place, each) -> ends.put(place, each.offset()));
        return ends;
    }

    private void waitUntilAllIsProcessed(Admin admin) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS_MAX);
        Map<TopicPartition, Long> ends = ends(admin, places(INPUT));
        for (Pipeline pipeline : Pipeline.values()) {
            Map<TopicPartition, Long> at = progress(admin, "auditor", pipeline);
            while (!at.equals(ends)) {
                if (System.nanoTime() > until) {
                    story.tell("violation", pipeline.group() + " is at " + at + " of " + ends);
                    return;
                }
                over.await(POLL.toMillis(), TimeUnit.MILLISECONDS);
                at = progress(admin, "auditor", pipeline);
            }
        }
    }

    /** Everything from its beginning while the node dies. */
    private void follow() {
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            begin(consumer, "reader", COMMITTED);
            while (over.getCount() > 0) {
                poll(consumer, "reader");
            }
        }
    }

    /** Everything up to the high watermarks. */
    private void readToEnd(Admin admin, String isolation) throws Exception {
        String process = "last-" + isolation;
        try (KafkaConsumer<String, String> consumer =
            consumer(Map.of("isolation.level", isolation))) {
            begin(consumer, process, isolation);
            Map<TopicPartition, Long> readings = new LinkedHashMap<>();
            for (TopicPartition place : everything()) {
                long reading = story.tell("read-to-end", process, HistoryStory.words(place));
                readings.put(place, reading);
            }
            Map<TopicPartition, Long> ends = ends(admin, everything());
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS_MAX);
            while (!readings.isEmpty()) {
                if (System.nanoTime() > until) {
                    story.tell("violation", process + " did not come to " + readings.keySet());
                    return;
                }
                poll(consumer, process);
                for (TopicPartition place : List.copyOf(readings.keySet())) {
                    if (consumer.position(place) >= ends.get(place)) {
                        story.tell("reached", readings.remove(place), ends.get(place));
                    }
                }
            }
        }
    }

    private void begin(KafkaConsumer<String, String> consumer, String process, String isolation) {
        story.tell("process", process, isolation);
        story.tell("assigned", process, HistoryStory.words(everything()));
        consumer.assign(everything());
        consumer.seekToBeginning(everything());
    }

    /** With transactions v2 every end bumps the epoch: so one sees that they are used. */
    private void tellEpochs(Admin admin) throws Exception {
        List<String> names = new ArrayList<>();
        for (Pipeline pipeline : Pipeline.values()) {
            names.addAll(pipeline.workers());
        }
        var found = persist(() -> admin.describeTransactions(names).all().get());
        found.forEach((name, each) -> story.tell("epoch", name, each.producerEpoch()));
    }
}
