import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * Loads a lab cluster with everything that a monitor must be able to see.
 *
 * <p>Arguments: the folder to talk through (see {@link Control}), the name server, the masters, the
 * consumer groups to run (see {@link Groups}), messages a second to lab_orders.
 */
public final class Workload {
    /** For every request: the default of 3 to 5 s is too short where two cores boot all at once. */
    static final int PATIENCE_MILLIS = 60_000;

    public static void main(String[] arguments) throws Exception {
        Control control = new Control(Path.of(arguments[0]));
        String namesrv = arguments[1];
        List<String> masters = List.of(arguments[2].split(","));
        Set<String> names = new LinkedHashSet<>(List.of(arguments[3].split(",")));
        double rate = Double.parseDouble(arguments[4]);

        Topics.create(namesrv, masters);
        Groups groups = new Groups(namesrv, masters);
        Producers producers = new Producers(namesrv, rate);

        // g-hung must find an empty topic: its first messages come once it holds all its queues.
        if (names.remove("g-hung")) {
            groups.startHung();
            producers.sendToEveryQueue(Topics.HUNG);
        }
        for (String name : names) {
            groups.start(name);
        }
        producers.start(control);
        groups.awaitGone();
        control.ready();
        Thread.currentThread().join();
    }
}
