import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** Sends at steady rates, one for each name; a broker that is away is tried again. */
final class Steady {
    private static final int THREADS = 8;

    private final ScheduledExecutorService threads = Executors.newScheduledThreadPool(THREADS);
    private final Map<String, ScheduledFuture<?>> running = new HashMap<>();

    interface Send {
        void send() throws Exception;
    }

    /** Sends so often a second from now on; 0 ends it. */
    synchronized void rate(String name, double rate, Send send) {
        ScheduledFuture<?> before = running.remove(name);
        if (before != null) {
            before.cancel(false);
        }
        if (rate > 0) {
            long pause = (long) (TimeUnit.SECONDS.toMicros(1) / rate);
            running.put(name, threads.scheduleWithFixedDelay(
                () -> attempt(name, send), pause, pause, TimeUnit.MICROSECONDS));
        }
    }

    private static void attempt(String name, Send send) {
        try {
            send.send();
        } catch (Exception failed) {
            System.err.println("a send to " + name + " failed: " + failed);
        }
    }
}
