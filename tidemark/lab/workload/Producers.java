import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** One thread that writes to every topic at a steady rate, each message confirmed by its broker. */
final class Producers {
    private static final List<String> TAGS = List.of("A", "B", "C");
    private static final byte[] BODY = body(100);
    private static final String ORDER_KEY = "order-";
    /** Level 2 of the broker's table of delays. */
    private static final int DELAY_LEVEL = 2;
    private static final long DELAY_SECONDS = 5;
    private static final int FAILURES_SHOWN = 20;

    private final DefaultMQProducer producer;
    private final long stepNanos;
    private final Map<String, Long> sent = new TreeMap<>();
    private long failures;
    private long lastDelayed;

    Producers(String namesrv, double rate) throws Exception {
        producer = new DefaultMQProducer("p-lab");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("p-lab-0");
        producer.setClientIP("127.0.0.1");
        producer.setMqClientApiTimeout(Workload.PATIENCE_MILLIS);
        // A send that timed out may have been stored: another attempt would make counts uncertain.
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        stepNanos = (long) (1_000_000_000L / rate);
        lastDelayed = System.nanoTime() - TimeUnit.SECONDS.toNanos(DELAY_SECONDS);
    }

    void sendToEveryQueue(String topic) throws Exception {
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            count(topic, producer.send(new Message(topic, "A", BODY), queue));
        }
    }

    void start(Control control) {
        Thread thread = new Thread(() -> produce(control), "producers");
        thread.setDaemon(true);
        thread.start();
    }

    private void produce(Control control) {
        try {
            long next = System.nanoTime();
            for (long number = 1; true; number++) {
                if (control.pauseAsked()) {
                    pause(control);
                    next = System.nanoTime();
                }
                sendOneRound(number);
                next += stepNanos;
                long wait = next - System.nanoTime();
                if (wait > 0) {
                    TimeUnit.NANOSECONDS.sleep(wait);
                } else {
                    // What a slow broker held up is not made good by a burst.
                    next = System.nanoTime();
                }
            }
        } catch (Exception broken) {
            broken.printStackTrace();
            System.exit(1);
        }
    }

    /** The number in the key of a message to lab_orders: its tag is that of number modulo 3. */
    static long numberOf(Message order) {
        return Long.parseLong(order.getKeys().substring(ORDER_KEY.length()));
    }

    private void sendOneRound(long number) {
        String tag = TAGS.get((int) (number % TAGS.size()));
        Message order = new Message(Topics.ORDERS, tag, ORDER_KEY + number, BODY);
        if (number % 50 == 0) {
            order.setDelayTimeLevel(DELAY_LEVEL);
            lastDelayed = System.nanoTime();
        }
        send(order);
        if (number % 2 == 0) {
            sendOrdered(tag, number);
        } else {
            send(new Message(Topics.BROADCAST, "A", "broadcast-" + number, BODY));
        }
        if (number % 4 == 0) {
            send(new Message(Topics.TWO, "A", "two-" + number, BODY));
            send(new Message(Topics.HUNG, "A", "hung-" + number, BODY));
        }
    }

    private void send(Message message) {
        try {
            count(message.getTopic(), producer.send(message));
        } catch (Exception failed) {
            failed(message.getTopic(), failed);
        }
    }

    private void sendOrdered(String tag, long number) {
        long key = number / 2 % 8;
        Message message = new Message(Topics.ORDERED, tag, "ordered-" + number, BODY);
        try {
            count(Topics.ORDERED, producer.send(
                message, (queues, ignored, which) -> queues.get((int) key % queues.size()), key));
        } catch (Exception failed) {
            failed(Topics.ORDERED, failed);
        }
    }

    private void count(String topic, SendResult result) {
        // Every other status is stored as well, only not yet flushed or not yet on a slave.
        sent.merge(topic, 1L, Long::sum);
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            System.out.println(topic + " " + result.getSendStatus());
        }
    }

    private void failed(String topic, Exception reason) {
        if (failures++ < FAILURES_SHOWN) {
            System.out.println("a send to " + topic + " failed: " + reason);
        }
    }

    /** Waits until the last message with a delay has come to its topic, and for the pause to end. */
    private void pause(Control control) throws Exception {
        long arrived = lastDelayed + TimeUnit.SECONDS.toNanos(DELAY_SECONDS + 1);
        TimeUnit.NANOSECONDS.sleep(Math.max(0, arrived - System.nanoTime()));
        control.paused(sent);
        while (control.pauseAsked()) {
            Thread.sleep(50);
        }
        control.goesOn();
    }

    private static byte[] body(int size) {
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        return body;
    }
}
