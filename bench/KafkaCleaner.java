import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Apache Kafka's own log cleaner behind a pipe. A line in:
 *
 * <pre>
 *   DIRECTORY FIRST_DIRTY UPPER NOW_MS DELETE_RETENTION_MS SEGMENT_BYTES MAP_BYTES
 * </pre>
 * A line out: the offset it has cleaned up to, the seconds it took and the CPU seconds of its
 * thread. The log in the directory is recovered first (not counted), cleaned in place and closed.
 * What fails answers "error ...".
 */
public class KafkaCleaner {
    private static final int IO_BUFFER_BYTES = 512 * 1024 / 2; // log.cleaner.io.buffer.size, halved
    private static final int EXPIRATION_MS = Integer.MAX_VALUE;
    private static final double LOAD_FACTOR = 0.9;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        String line;
        while ((line = lines.readLine()) != null) {
            String answer;
            try {
                answer = clean(line.split(" "), scheduler);
            } catch (Exception failure) {
                failure.printStackTrace();
                answer = "error " + failure;
            }
            answers.println(answer.replace('\n', ' '));
            answers.flush();
        }
        System.exit(0);
    }

    private static String clean(String[] words, KafkaScheduler scheduler) throws Exception {
        LogConfig config = new LogConfig(Map.of(
            "cleanup.policy", "compact",
            "delete.retention.ms", words[4],
            LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG, words[5],
            "file.delete.delay.ms", "3600000")); // whoever asks removes the directory
        UnifiedLog log = UnifiedLog.create(
            new File(words[0]), config, 0L, 0L, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            EXPIRATION_MS, new ProducerStateManagerConfig(EXPIRATION_MS, false), EXPIRATION_MS,
            new LogDirFailureChannel(1), false, Optional.empty());
        try {
            log.updateHighWatermark(log.logEndOffset());
            Throttler none = new Throttler(Double.MAX_VALUE, 300, "bytes", "bytes", Time.SYSTEM);
            Cleaner cleaner = new Cleaner(
                0, new SkimpyOffsetMap(Integer.parseInt(words[6])), IO_BUFFER_BYTES,
                Integer.MAX_VALUE / 2, LOAD_FACTOR, none, Time.SYSTEM, partition -> { });
            long first = Long.parseLong(words[1]);
            LogToClean dirty = new LogToClean(log, first, Long.parseLong(words[2]), false);
            var threads = java.lang.management.ManagementFactory.getThreadMXBean();
            long began = System.nanoTime();
            long spent = threads.getCurrentThreadCpuTime();
            Map.Entry<Long, CleanerStats> done = cleaner.doClean(dirty, Long.parseLong(words[3]));
            double cpu = (threads.getCurrentThreadCpuTime() - spent) / 1e9;
            double seconds = (System.nanoTime() - began) / 1e9;
            return done.getKey() + " " + seconds + " " + cpu;
        } finally {
            log.close();
        }
    }
}
