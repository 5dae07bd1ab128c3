import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;

/**
 * What happened, line by line on standard output: a JSON array of what it is, its number and its
 * parts. There is a line before something is asked for, and one more when the answer came, which
 * names the number of the first. One lock is around them all, so that their order is an order of
 * moments (see penstock.testing.history).
 */
final class HistoryStory {
    private final ObjectMapper mapper = new ObjectMapper();
    private final PrintStream out =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private long lines;

    synchronized long tell(String what, Object... parts) {
        List<Object> line = new ArrayList<>();
        line.add(what);
        line.add(++lines);
        line.addAll(Arrays.asList(parts));
        try {
            out.print(mapper.writeValueAsString(line) + "\n");
        } catch (JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
        out.flush();
        return lines;
    }

    // -- Kafka's values as parts of a line

    static List<Object> words(TopicPartition place) {
        return List.of(place.topic(), place.partition());
    }

    static List<Object> words(Collection<TopicPartition> places) {
        return places.stream().<Object>map(HistoryStory::words).toList();
    }

    static List<Object> words(Map<TopicPartition, Long> offsets) {
        return offsets.entrySet().stream().<Object>map(each ->
            Arrays.asList(each.getKey().topic(), each.getKey().partition(), each.getValue())
        ).toList();
    }

    static List<Object> words(ConsumerRecords<String, String> records) {
        List<Object> found = new ArrayList<>();
        for (ConsumerRecord<String, String> each : records) {
            found.add(List.of(each.topic(), each.partition(), each.offset(), each.value()));
        }
        return found;
    }
}
