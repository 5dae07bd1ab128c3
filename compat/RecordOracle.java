import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Apache Kafka's own record classes behind a pipe: a line in, a line out.
 *
 * <pre>
 *   range CLASS                 the versions: "low high"
 *   decode CLASS VERSION HEX    Kafka reads the bytes: "HEX JSON", its own bytes for it and its JSON
 *   encode CLASS VERSION JSON   Kafka reads the JSON: "HEX"
 * </pre>
 * What fails answers "error ...".
 */
public class RecordOracle {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.raft.generated.",
    };
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" ", 4));
            } catch (InvocationTargetException failure) {
                answer = "error " + failure.getCause();
            } catch (Throwable failure) {
                answer = "error " + failure;
            }
            out.print(answer.replace('\n', ' ') + "\n");
            out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        Class<?> type = find(words[1]);
        if (words[0].equals("range")) {
            return type.getField("LOWEST_SUPPORTED_VERSION").getShort(null)
                + " " + type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
        }
        short version = Short.parseShort(words[2]);
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        String rest = words.length > 3 ? words[3] : "";
        if (words[0].equals("encode")) {
            var message = (Message) converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, MAPPER.readTree(rest), version);
            return bytes(message, version);
        }
        ByteBuffer given = ByteBuffer.wrap(HexFormat.of().parseHex(rest));
        var message = (Message) type.getConstructor(Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(given), version);
        if (given.hasRemaining()) {
            return "error " + given.remaining() + " bytes left";
        }
        var json = (JsonNode) converter.getMethod("write", type, short.class)
            .invoke(null, message, version);
        return bytes(message, version) + " " + MAPPER.writeValueAsString(json);
    }

    /** Nothing at all is a valid message: it is shown as a dash. */
    private static String bytes(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] copy = new byte[buffer.remaining()];
        buffer.get(copy);
        return copy.length == 0 ? "-" : HexFormat.of().formatHex(copy);
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String place : PACKAGES) {
            try {
                return Class.forName(place + name);
            } catch (ClassNotFoundException next) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }
}
