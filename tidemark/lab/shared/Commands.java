import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Commands of a program: one line of standard input and of output each.
 *
 * <p>The response is {@code ok} with numbers, or {@code error} with the reason. The process ends with
 * its input.
 */
interface Commands {

    String dispatch(String[] words) throws Exception;

    static void serve(Commands commands) throws Exception {
        PrintStream responses = System.out;
        // Commands of mqadmin print; only responses may reach the standard output.
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                responses.println("ok " + commands.dispatch(line.split(" ")));
            } catch (Exception error) {
                responses.println("error " + error.toString().replace('\n', ' '));
            }
            responses.flush();
        }
        System.exit(0);
    }
}
