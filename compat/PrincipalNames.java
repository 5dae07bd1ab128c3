import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Scanner;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Java's names of subjects, and Kafka's mapping rules, behind a pipe: a line in, a line out, in hex.
 *
 * <pre>
 *   subject DER        the name: "=NAME"
 *   rules RULES NAME   the mapped name "=NAME", "?" if no rule maps it, "!" for wrong rules
 * </pre>
 */
public class PrincipalNames {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        StringBuilder out = new StringBuilder();
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            String answer = words[0].equals("subject")
                    ? "=" + new X500Principal(HEX.parseHex(words[1])).getName()
                    : map(text(words[1]), text(words[2]));
            out.append(HEX.formatHex(answer.getBytes(StandardCharsets.UTF_8))).append('\n');
        }
        System.out.print(out);
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String map(String rules, String name) {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(rules);
        } catch (RuntimeException wrong) {
            return "!";
        }
        try {
            return "=" + mapper.getName(name);
        } catch (Exception unmapped) {
            return "?";
        }
    }
}
