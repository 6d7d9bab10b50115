import ROCKETMQ_PROTOCOL.heartbeat.MessageModel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MQPullConsumer;
import org.apache.rocketmq.client.consumer.MQPullConsumerScheduleService;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullTaskContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * One process of an application: members of groups that talk to the brokers themselves, of every kind.
 *
 * <p>Arguments: the name server, the masters, the name of the process, which all its members have for
 * their instance. {@link #dispatch} lists the commands, {@link Commands} says what responses are.
 */
public final class RemotingClients implements Commands {
    private static final int READ_AND_WRITE = 6;
    private static final int PULL_BATCH = 32;
    private static final int PULL_PAUSE_MILLIS = 200;
    private static final long POP_INVISIBLE_MILLIS = 60_000;
    /** The client hands a message back after 15 minutes of work on it; not in a lab. */
    private static final int CONSUME_TIMEOUT_MINUTES = 30 * 24 * 60;
    private static final byte[] BODY = "a message".getBytes(StandardCharsets.UTF_8);

    private final String namesrv;
    private final List<String> masters;
    private final String process;
    private final Map<String, Behaviour> behaviours = new HashMap<>();
    private final List<AutoCloseable> members = new ArrayList<>();
    private final Steady steady = new Steady();
    private DefaultMQProducer producer;

    private RemotingClients(String namesrv, List<String> masters, String process) {
        this.namesrv = namesrv;
        this.masters = masters;
        this.process = process;
    }

    public static void main(String[] arguments) throws Exception {
        List<String> masters = List.of(arguments[1].split(","));
        Commands.serve(new RemotingClients(arguments[0], masters, arguments[2]));
    }

    @Override
    public String dispatch(String[] words) throws Exception {
        switch (words[0]) {
            case "configure":
                return configure(words[1], words[2]);
            case "topic":
                return topic(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "send":
                return send(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "flood":
                return flood(words[1], Integer.parseInt(words[2]));
            case "produce":
                return produce(words[1], Double.parseDouble(words[2]), words[3]);
            case "consume":
                consume(words[1], new Member(words));
                return "";
            case "behave":
                behaviours.get(words[1]).become(words[2]);
                return "";
            case "count":
                return behaviours.get(words[1]).counts();
            case "leave":
                for (AutoCloseable member : members) {
                    member.close();
                }
                return String.valueOf(members.size());
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }

    /** {@code consume KIND GROUP TOPIC BEHAVIOUR [name=value ...]}. */
    private final class Member {
        private final String group;
        private final String topic;
        private final Behaviour behaviour;
        private final Map<String, String> options = new HashMap<>();

        Member(String[] words) {
            group = words[2];
            topic = words[3];
            behaviour = new Behaviour(words[4]);
            behaviours.put(group, behaviour);
            for (int i = 5; i < words.length; i++) {
                String[] option = words[i].split("=");
                options.put(option[0], option[1]);
            }
        }

        String tags() {
            return options.getOrDefault("tags", "*");
        }

        /** Another process may have a member of the same name, and so of the same client id. */
        void identify(ClientConfig client) {
            client.setNamesrvAddr(namesrv);
            client.setInstanceName(options.getOrDefault("as", process));
            client.setClientIP("127.0.0.1");
            client.setMqClientApiTimeout(Workload.PATIENCE_MILLIS);
        }
    }

    private void consume(String kind, Member member) throws Exception {
        switch (kind) {
            case "push": startPush(member, false); break;
            case "ordered": startPush(member, true); break;
            case "broadcast": startBroadcast(member); break;
            case "pop": startPop(member); break;
            case "lite-pull": startLitePull(member, true); break;
            case "assigned": startLitePull(member, false); break;
            case "pull": startPull(member); break;
            default: throw new IllegalArgumentException("no kind " + kind);
        }
    }

    private void startPush(Member member, boolean ordered) throws Exception {
        DefaultMQPushConsumer consumer = push(member);
        if (ordered) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                done(member, messages.get(0)) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        }
        if ("never".equals(member.options.get("commits"))) {
            consumer.setOffsetStore(new NeverCommits(consumer, member.group));
        }
        run(consumer);
    }

    private void startBroadcast(Member member) throws Exception {
        DefaultMQPushConsumer consumer = push(member);
        consumer.setMessageModel(MessageModel.BROADCASTING);
        run(consumer);
    }

    private void startPop(Member member) throws Exception {
        Pop.of(namesrv, masters, member.topic, member.group);
        DefaultMQPushConsumer consumer = push(member);
        Pop.byBroker(consumer, POP_INVISIBLE_MILLIS);
        run(consumer);
    }

    private DefaultMQPushConsumer push(Member member) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(member.group);
        member.identify(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeTimeout(CONSUME_TIMEOUT_MINUTES);
        int threads = Integer.parseInt(member.options.getOrDefault("threads", "4"));
        consumer.setConsumeThreadMin(threads);
        consumer.setConsumeThreadMax(threads);
        consumer.subscribe(member.topic, member.tags());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            done(member, messages.get(0)) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        return consumer;
    }

    private void run(DefaultMQPushConsumer consumer) throws Exception {
        consumer.start();
        members.add(consumer::shutdown);
    }

    /** Polls; of assigned members the option {@code part=I/N} says which queues they take. */
    private void startLitePull(Member member, boolean subscribes) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(member.group);
        member.identify(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (subscribes) {
            consumer.subscribe(member.topic, member.tags());
        }
        consumer.start();
        if (!subscribes) {
            String[] part = member.options.getOrDefault("part", "0/1").split("/");
            int index = Integer.parseInt(part[0]);
            int parts = Integer.parseInt(part[1]);
            consumer.assign(consumer.fetchMessageQueues(member.topic).stream()
                .filter(queue -> queue.getQueueId() % parts == index)
                .collect(Collectors.toList()));
        }
        AtomicBoolean runs = new AtomicBoolean(true);
        Thread polls = new Thread(() -> {
            while (runs.get()) {
                consumer.poll(1000).forEach(message -> done(member, message));
            }
        }, member.group);
        polls.setDaemon(true);
        polls.start();
        members.add(() -> {
            runs.set(false);
            polls.join();
            consumer.shutdown();
        });
    }

    /** The oldest client, with the schedule that RocketMQ offers for it. */
    private void startPull(Member member) throws Exception {
        MQPullConsumerScheduleService service = new MQPullConsumerScheduleService(member.group);
        DefaultMQPullConsumer consumer = service.getDefaultMQPullConsumer();
        member.identify(consumer);
        service.setPullThreadNums(4);
        service.registerPullTaskCallback(
            member.topic, (queue, context) -> pullOnce(member, queue, context));
        service.start();
        members.add(service::shutdown);
    }

    private static void pullOnce(Member member, MessageQueue queue, PullTaskContext context) {
        MQPullConsumer consumer = context.getPullConsumer();
        context.setPullNextDelayTimeMillis(PULL_PAUSE_MILLIS);
        try {
            long offset = Math.max(0, consumer.fetchConsumeOffset(queue, false));
            PullResult result = consumer.pull(queue, member.tags(), offset, PULL_BATCH);
            if (result.getMsgFoundList() != null) {
                result.getMsgFoundList().forEach(message -> done(member, message));
            }
            consumer.updateConsumeOffset(queue, result.getNextBeginOffset());
        } catch (Exception failed) {
            System.err.println(member.group + " could not pull: " + failed);
        }
    }

    private static boolean done(Member member, MessageExt message) {
        try {
            return member.behaviour.handle(message.getMsgId(), message.getReconsumeTimes());
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /** Changes a setting of every master. */
    private String configure(String name, String value) throws Exception {
        Properties settings = new Properties();
        settings.setProperty(name, value);
        return onMasters((admin, master) -> admin.updateBrokerConfig(master, settings));
    }

    /** Makes a topic on every master. */
    private String topic(String name, int readQueues, int writeQueues) throws Exception {
        return onMasters((admin, master) -> admin.createAndUpdateTopicConfig(
            master, new TopicConfig(name, readQueues, writeQueues, READ_AND_WRITE)));
    }

    private interface Task {
        void on(DefaultMQAdminExt admin, String master) throws Exception;
    }

    private String onMasters(Task task) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Workload.PATIENCE_MILLIS);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("admin-" + process);
        admin.start();
        try {
            for (String master : masters) {
                task.on(admin, master);
            }
        } finally {
            admin.shutdown();
        }
        return "";
    }

    /** Sends messages of so many bytes. */
    private String send(String topic, int count, int size) throws Exception {
        for (int i = 0; i < count; i++) {
            producer().send(new Message(topic, new byte[size]));
        }
        return String.valueOf(count);
    }

    /** Sends messages as fast as it can, and waits for no response. */
    private String flood(String topic, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            producer().sendOneway(new Message(topic, BODY));
        }
        return String.valueOf(count);
    }

    /** Sends so many messages a second, with these tags in turn. */
    private String produce(String topic, double rate, String tags) throws Exception {
        String[] each = tags.split(",");
        AtomicLong number = new AtomicLong();
        DefaultMQProducer sender = producer();
        steady.rate(topic, rate, () -> {
            String tag = each[(int) (number.incrementAndGet() % each.length)];
            sender.send(new Message(topic, tag, BODY));
        });
        return "";
    }

    private DefaultMQProducer producer() throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("p-" + process);
            producer.setNamesrvAddr(namesrv);
            producer.setInstanceName("p-" + process);
            producer.setSendMsgTimeout(10_000);
            producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
            producer.start();
        }
        return producer;
    }
}
