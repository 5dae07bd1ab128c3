import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** One member of a group: polls, transforms in a transaction, dies and comes again. */
final class HistoryWorker {
    private static final Duration CLOSE_MAX = Duration.ofSeconds(1);
    private static final long LATE_MS_MAX = 1_500;
    // Shares of transactions that do not simply commit.
    private static final double ABANDONED = 0.04;
    private static final double CUT_SHORT = 0.04;
    private static final double LATE = 0.05;
    private static final double ABORTED = 0.1;

    private final HistoryClients run;
    private final HistoryStory story;
    private final HistoryClients.Pipeline pipeline;
    private final String name;
    private final Random chance;
    private long attempts;
    // What the life before left behind: its producer, its transaction if nobody decided it.
    private KafkaProducer<String, String> left;
    private Long open;
    private KafkaProducer<String, String> zombie; // replaced, and not aware of it

    HistoryWorker(HistoryClients run, HistoryClients.Pipeline pipeline, String name) {
        this.run = run;
        this.story = run.story;
        this.pipeline = pipeline;
        this.name = name;
        this.chance = new Random(run.seed * 31 + name.hashCode());
    }

    /** This client is not to go on, or cannot: another takes its place. */
    private static final class Crash extends Exception {
        Crash(Throwable cause) {
            super(cause);
        }
    }

    void work() throws Exception {
        while (true) {
            KafkaConsumer<String, String> consumer = run.consumer(pipeline.membership());
            try {
                KafkaProducer<String, String> producer = succeed();
                live(consumer, producer);
                producer.close(CLOSE_MAX);
                return;
            } catch (Crash crash) {
                story.tell("crashed", name);
            } finally {
                close(consumer);
            }
        }
    }

    private void close(KafkaConsumer<String, String> consumer) {
        try {
            consumer.close(CloseOptions.timeout(CLOSE_MAX));
        } catch (KafkaException failure) {
            return; // its session will end by itself
        }
    }

    /** A new producer under the same name ends what the last one left open. */
    private KafkaProducer<String, String> succeed() throws Exception {
        if (!run.transactions) {
            return run.producer(Map.of());
        }
        KafkaProducer<String, String> producer = run.producer(Map.of("transactional.id", name));
        HistoryClients.insist(producer::initTransactions);
        if (open != null) {
            story.tell("aborted", open);
            zombie = left;
        }
        left = null;
        open = null;
        return producer;
    }

    private void live(
        KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer
    ) throws Exception {
        story.tell("subscribed", name, List.of(HistoryClients.INPUT));
        consumer.subscribe(List.of(HistoryClients.INPUT), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> added) {
                story.tell("assigned", name, HistoryStory.words(consumer.assignment()));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                story.tell("revoked", name, HistoryStory.words(gone));
            }
        });
        while (run.over.getCount() > 0) {
            ConsumerRecords<String, String> records = run.poll(consumer, name);
            if (records.isEmpty()) {
                continue;
            }
            attempts++;
            if (run.transactions) {
                transform(consumer, producer, records);
            } else {
                copyPlainly(consumer, producer, records);
            }
        }
    }

    /** One transaction, to whatever end chance and the node give it. */
    private void transform(
        KafkaConsumer<String, String> consumer,
        KafkaProducer<String, String> producer,
        ConsumerRecords<String, String> records
    ) throws Exception {
        double fate = chance.nextDouble();
        boolean late = false;
        long transaction = story.tell("begin", name);
        try {
            producer.beginTransaction();
            produce(producer, records, transaction);
            sendOffsets(consumer, producer, records, transaction);
            haunt();
            if (fate < ABANDONED) {
                left = producer;
                open = transaction;
                throw new Crash(null);
            }
            if (fate > 1 - ABORTED) {
                abort(consumer, producer, transaction, records);
                return;
            }
            story.tell("commit-asked", transaction);
            if (fate < ABANDONED + CUT_SHORT) {
                commitUnheard(producer);
                throw new Crash(null);
            }
            late = fate < ABANDONED + CUT_SHORT + LATE;
            if (late) { // another takes over its partitions, and must wait for how this ends
                close(consumer);
                run.over.await(chance.nextLong(LATE_MS_MAX), TimeUnit.MILLISECONDS);
            }
            HistoryClients.insist(producer::commitTransaction);
        } catch (KafkaException failure) {
            abort(consumer, producer, transaction, records);
            return;
        }
        story.tell("committed", transaction);
        if (late) {
            producer.close(CLOSE_MAX);
            throw new Crash(null);
        }
    }

    private void produce(
        KafkaProducer<String, String> producer,
        ConsumerRecords<String, String> records,
        Long transaction
    ) {
        int number = 0;
        for (ConsumerRecord<String, String> each : records) {
            int partition = chance.nextInt(run.partitions);
            String value = each.value() + ":" + name + "/" + attempts + "." + number++;
            List<Object> source = List.of(each.topic(), each.partition(), each.offset());
            TopicPartition place = new TopicPartition(pipeline.output(), partition);
            run.send(producer, name, place, value, transaction, source);
        }
    }

    private void sendOffsets(
        KafkaConsumer<String, String> consumer,
        KafkaProducer<String, String> producer,
        ConsumerRecords<String, String> records,
        long transaction
    ) {
        Map<TopicPartition, Long> following = following(records);
        List<Object> words = HistoryStory.words(following);
        long committing = story.tell("commit", name, pipeline.group(), transaction, words);
        producer.sendOffsetsToTransaction(offsets(following), consumer.groupMetadata());
        story.tell("commit-ok", committing);
    }

    /** The one before comes again while its successor has a transaction open. */
    private void haunt() {
        if (zombie == null) {
            return;
        }
        try {
            zombie.commitTransaction();
            story.tell("violation", name + " was replaced, but could still commit");
        } catch (KafkaException fenced) {
            // as it should be
        } finally {
            zombie.close(Duration.ZERO);
            zombie = null;
        }
    }

    /** Nobody waits for the answer. */
    private void commitUnheard(KafkaProducer<String, String> producer) {
        run.start(name + "-unheard", () -> {
            try {
                producer.commitTransaction();
            } catch (KafkaException fenced) {
                return; // its successor was faster
            } finally {
                producer.close(Duration.ZERO);
            }
        });
    }

    /** Take the transaction back, and the consumer to where it was before. */
    private void abort(
        KafkaConsumer<String, String> consumer,
        KafkaProducer<String, String> producer,
        long transaction,
        ConsumerRecords<String, String> records
    ) throws Exception {
        try {
            HistoryClients.insist(producer::abortTransaction);
            story.tell("aborted", transaction);
            for (TopicPartition place : records.partitions()) {
                long first = records.records(place).get(0).offset();
                consumer.seek(place, first);
                story.tell("sought", name, HistoryStory.words(place), first);
            }
        } catch (KafkaException | IllegalStateException failure) { // it may be closed by now
            producer.close(Duration.ZERO);
            throw new Crash(failure);
        }
    }

    /** Without a transaction: what somebody does who dies between two steps is done again. */
    private void copyPlainly(
        KafkaConsumer<String, String> consumer,
        KafkaProducer<String, String> producer,
        ConsumerRecords<String, String> records
    ) throws Crash {
        produce(producer, records, null);
        producer.flush();
        if (chance.nextDouble() < ABANDONED) {
            producer.close(CLOSE_MAX);
            throw new Crash(null);
        }
        Map<TopicPartition, Long> following = following(records);
        List<Object> words = HistoryStory.words(following);
        long committing = story.tell("commit", name, pipeline.group(), null, words);
        try {
            consumer.commitSync(offsets(following));
        } catch (KafkaException failure) {
            producer.close(CLOSE_MAX);
            throw new Crash(failure);
        }
        story.tell("commit-ok", committing);
    }

    private static Map<TopicPartition, Long> following(ConsumerRecords<String, String> records) {
        Map<TopicPartition, Long> following = new LinkedHashMap<>();
        for (ConsumerRecord<String, String> each : records) {
            following.put(new TopicPartition(each.topic(), each.partition()), each.offset() + 1);
        }
        return following;
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(Map<TopicPartition, Long> given) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        given.forEach((place, offset) -> offsets.put(place, new OffsetAndMetadata(offset)));
        return offsets;
    }
}
