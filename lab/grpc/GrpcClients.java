import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Clients of a Proxy that count what they do, one line of standard input and of output each.
 *
 * <p>Arguments: the Proxy's gRPC endpoint, the name server. {@link #dispatch} lists the commands. The
 * response is {@code ok} with numbers, or {@code error} with the reason. The process ends with its
 * input.
 */
public final class GrpcClients {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final long RECEIVE_SECONDS = 30;
    /** A receive returns at most this many messages ({@code maxMessageNum} of the Proxy). */
    private static final int BATCH = 32;
    private static final int CACHED_MESSAGES = 4096;
    private static final int CACHED_BYTES = 64 * 1024 * 1024;

    private final ClientConfiguration configuration;
    private final String namesrv;
    private final Map<String, Producer> producers = new HashMap<>();
    private final Map<String, SimpleConsumer> simple = new HashMap<>();
    private final Map<String, Deque<MessageView>> held = new HashMap<>();
    private final Map<String, PushConsumer> push = new HashMap<>();
    private final Map<String, LitePushConsumer> lite = new HashMap<>();
    private final Map<String, Counts> counts = new HashMap<>();

    /** Messages of a push group that its listener began with, and that it finished. */
    private record Counts(AtomicInteger begun, AtomicInteger finished) {
    }

    private GrpcClients(String endpoint, String namesrv) {
        this.namesrv = namesrv;
        this.configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint)
            .setRequestTimeout(Duration.ofSeconds(30)).enableSsl(false).build();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream responses = System.out;
        // Commands of mqadmin print; only responses may reach the standard output.
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        GrpcClients clients = new GrpcClients(arguments[0], arguments[1]);
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            try {
                responses.println("ok " + clients.dispatch(line.split(" ")));
            } catch (Exception error) {
                responses.println("error " + error.toString().replace('\n', ' '));
            }
            responses.flush();
        }
        System.exit(0);
    }

    private String dispatch(String[] words) throws Exception {
        switch (words[0]) {
            case "admin":
                return admin(Arrays.copyOfRange(words, 1, words.length));
            case "send":
                return send(words[1], Integer.parseInt(words[2]), words[3]);
            case "simple":
                return startSimple(words[1], words[2]);
            case "receive":
                return receive(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
            case "ack":
                return ack(words[1], Integer.parseInt(words[2]));
            case "push":
                return startPush(words[1], words[2], Integer.parseInt(words[3]),
                    Long.parseLong(words[4]));
            case "lite":
                return startLite(words[1], words[2], Integer.parseInt(words[3]),
                    Long.parseLong(words[4]), Arrays.copyOfRange(words, 5, words.length));
            case "count":
                Counts of = counts.get(words[1]);
                return of.begun + " " + of.finished;
            case "close":
                return close(words[1]);
            case "remoting-send":
                return Remoting.send(namesrv, words[1], Integer.parseInt(words[2]));
            case "remoting-read":
                return Remoting.read(namesrv, words[1], words[2], Integer.parseInt(words[3]));
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }

    /** mqadmin, in this process: {@code admin updateTopic -b ... -t ...}. */
    private String admin(String[] arguments) {
        String[] whole = Arrays.copyOf(arguments, arguments.length + 2);
        whole[arguments.length] = "-n";
        whole[arguments.length + 1] = namesrv;
        MQAdminStartup.main0(whole, null);
        return "";
    }

    /**
     * Sends messages: {@code plain}, {@code fifo} (one message group), {@code lite:NAME} to a lite
     * topic, or seconds of delay.
     */
    private String send(String topic, int count, String kind) throws Exception {
        Producer producer = producers.get(topic);
        if (producer == null) {
            producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics(topic).build();
            producers.put(topic, producer);
        }
        for (int i = 0; i < count; i++) {
            MessageBuilder message = PROVIDER.newMessageBuilder().setTopic(topic)
                .setBody(("message " + i).getBytes(StandardCharsets.UTF_8));
            if (kind.equals("fifo")) {
                message.setMessageGroup("one");
            } else if (kind.startsWith("lite:")) {
                message.setLiteTopic(kind.substring("lite:".length()));
            } else if (!kind.equals("plain")) {
                long delay = Duration.ofSeconds(Long.parseLong(kind)).toMillis();
                message.setDeliveryTimestamp(System.currentTimeMillis() + delay);
            }
            producer.send(message.build());
        }
        return String.valueOf(count);
    }

    private String startSimple(String group, String topic) throws Exception {
        simple.put(group, PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build());
        held.put(group, new ArrayDeque<>());
        return "";
    }

    /** Pops so many messages and keeps them for {@code ack}; returns how many came. */
    private String receive(String group, int count, long invisibleSeconds) throws Exception {
        long end = System.nanoTime() + RECEIVE_SECONDS * 1_000_000_000L;
        int received = 0;
        while (received < count && System.nanoTime() < end) {
            List<MessageView> messages = simple.get(group)
                .receive(Math.min(BATCH, count - received), Duration.ofSeconds(invisibleSeconds));
            held.get(group).addAll(messages);
            received += messages.size();
        }
        return String.valueOf(received);
    }

    private String ack(String group, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            simple.get(group).ack(held.get(group).removeFirst());
        }
        return String.valueOf(count);
    }

    /** Starts a member whose listener takes so long over each message. */
    private String startPush(String group, String topic, int threads, long millis)
            throws Exception {
        push.put(group, PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setConsumptionThreadCount(threads)
            .setMaxCacheMessageCount(CACHED_MESSAGES).setMaxCacheMessageSizeInBytes(CACHED_BYTES)
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
            .setMessageListener(slow(group, millis)).build());
        return "";
    }

    /** Starts such a member of a group that is bound to a topic, on lite topics of that. */
    private String startLite(String group, String topic, int threads, long millis, String[] names)
            throws Exception {
        LitePushConsumer member = PROVIDER.newLitePushConsumerBuilder().bindTopic(topic)
            .setClientConfiguration(configuration).setConsumerGroup(group)
            .setConsumptionThreadCount(threads).setMaxCacheMessageCount(CACHED_MESSAGES)
            .setMaxCacheMessageSizeInBytes(CACHED_BYTES).setMessageListener(slow(group, millis))
            .build();
        lite.put(group, member);
        for (String name : names) {
            member.subscribeLite(name);
        }
        return "";
    }

    private MessageListener slow(String group, long millis) {
        Counts of = new Counts(new AtomicInteger(), new AtomicInteger());
        counts.put(group, of);
        return message -> {
            of.begun().incrementAndGet();
            try {
                Thread.sleep(millis);
            } catch (InterruptedException ended) {
                return ConsumeResult.FAILURE;
            }
            of.finished().incrementAndGet();
            return ConsumeResult.SUCCESS;
        };
    }

    private String close(String group) throws Exception {
        if (simple.containsKey(group)) {
            simple.remove(group).close();
        } else if (lite.containsKey(group)) {
            lite.remove(group).close();
        } else {
            push.remove(group).close();
        }
        return "";
    }
}
