import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Clients of a Proxy that count what they do.
 *
 * <p>Arguments: the Proxy's gRPC endpoint, the name server. {@link #dispatch} lists the commands,
 * {@link Commands} says what responses are.
 */
public final class GrpcClients implements Commands {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final long RECEIVE_SECONDS = 30;
    /** A receive returns at most this many messages ({@code maxMessageNum} of the Proxy). */
    private static final int BATCH = 32;
    private static final int WORKED_ON = 16;
    private static final int LATE_SECONDS = 5;
    private static final int CACHED_MESSAGES = 4096;
    private static final int CACHED_BYTES = 64 * 1024 * 1024;

    private final ClientConfiguration configuration;
    private final String namesrv;
    private final Map<String, Producer> producers = new HashMap<>();
    private final Map<String, SimpleConsumer> simple = new HashMap<>();
    private final Map<String, Deque<MessageView>> held = new HashMap<>();
    private final Map<String, PushConsumer> push = new HashMap<>();
    private final Map<String, LitePushConsumer> lite = new HashMap<>();
    private final Map<String, Behaviour> behaviours = new HashMap<>();
    private final Steady steady = new Steady();
    private final AtomicBoolean leaves = new AtomicBoolean();

    private GrpcClients(String endpoint, String namesrv) {
        this.namesrv = namesrv;
        this.configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint)
            .setRequestTimeout(Duration.ofSeconds(30)).enableSsl(false).build();
    }

    public static void main(String[] arguments) throws Exception {
        Commands.serve(new GrpcClients(arguments[0], arguments[1]));
    }

    @Override
    public String dispatch(String[] words) throws Exception {
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
                return behaviours.get(words[1]).counts();
            case "close":
                return close(words[1]);
            case "produce":
                return produce(words[1], Double.parseDouble(words[2]), words[3]);
            case "work":
                return work(words[1], words[2], Integer.parseInt(words[3]), words[4]);
            case "behave":
                behaviours.get(words[1]).become(words[2]);
                return "";
            case "leave":
                return leave();
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
     * Sends messages: {@code plain}, {@code fifo} (one message group) or {@code fifo:N} of them in
     * turn, {@code lite:NAME} to a lite topic, {@code priority:P}, or seconds of delay.
     */
    private String send(String topic, int count, String kind) throws Exception {
        Producer producer = producer(topic);
        for (int i = 0; i < count; i++) {
            producer.send(message(topic, kind, i));
        }
        return String.valueOf(count);
    }

    /** Sends so many of these messages a second; 0 ends it. */
    private String produce(String topic, double rate, String kind) throws Exception {
        Producer producer = producer(topic);
        AtomicInteger number = new AtomicInteger();
        steady.rate(topic + kind, rate,
            () -> producer.send(message(topic, kind, number.incrementAndGet())));
        return "";
    }

    private Producer producer(String topic) throws Exception {
        Producer producer = producers.get(topic);
        if (producer == null) {
            producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics(topic).build();
            producers.put(topic, producer);
        }
        return producer;
    }

    private static Message message(String topic, String kind, int number) {
        MessageBuilder message = PROVIDER.newMessageBuilder().setTopic(topic)
            .setBody(("message " + number).getBytes(StandardCharsets.UTF_8));
        String[] parts = kind.split(":");
        switch (parts[0]) {
            case "plain":
                break;
            case "fifo":
                message.setMessageGroup(
                    parts.length == 1 ? "one" : "group-" + number % Integer.parseInt(parts[1]));
                break;
            case "lite":
                message.setLiteTopic(parts[1]);
                break;
            case "priority":
                message.setPriority(Integer.parseInt(parts[1]));
                break;
            default:
                long delay = Duration.ofSeconds(Long.parseLong(kind)).toMillis();
                message.setDeliveryTimestamp(System.currentTimeMillis() + delay);
        }
        return message.build();
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

    /** Starts a simple consumer that receives and acknowledges on and on. */
    private String work(String group, String topic, int invisibleSeconds, String words)
            throws Exception {
        startSimple(group, topic);
        SimpleConsumer consumer = simple.get(group);
        Behaviour behaviour = new Behaviour(words);
        behaviours.put(group, behaviour);
        Thread thread = new Thread(() -> {
            while (!leaves.get()) {
                try {
                    receiveOnce(consumer, behaviour, Duration.ofSeconds(invisibleSeconds));
                } catch (Exception failed) {
                    System.err.println(group + " could not receive: " + failed);
                }
            }
        }, group);
        thread.setDaemon(true);
        thread.start();
        return "";
    }

    private static void receiveOnce(
            SimpleConsumer consumer, Behaviour behaviour, Duration invisible) throws Exception {
        List<MessageView> messages = consumer.receive(WORKED_ON, invisible);
        if (behaviour.is("late")) {
            Thread.sleep(invisible.plusSeconds(LATE_SECONDS).toMillis());
        }
        for (MessageView message : messages) {
            if (handles(behaviour, message)) {
                consumer.ack(message);
            }
        }
    }

    private static boolean handles(Behaviour behaviour, MessageView message)
            throws InterruptedException {
        return behaviour.handle(
            message.getMessageId().toString(), message.getDeliveryAttempt() - 1);
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
        Behaviour behaviour = new Behaviour("takes:" + millis);
        behaviours.put(group, behaviour);
        return message -> {
            try {
                return handles(behaviour, message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
            } catch (InterruptedException ended) {
                return ConsumeResult.FAILURE;
            }
        };
    }

    /** Lets every member leave as on a restart of its process. */
    private String leave() throws Exception {
        leaves.set(true);
        for (List<String> groups : List.of(
                List.copyOf(simple.keySet()), List.copyOf(lite.keySet()),
                List.copyOf(push.keySet()))) {
            for (String group : groups) {
                close(group);
            }
        }
        return "";
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
