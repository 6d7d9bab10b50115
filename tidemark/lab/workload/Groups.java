import ROCKETMQ_PROTOCOL.heartbeat.MessageModel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** The consumer groups, each a method that describes what it shows. */
final class Groups {
    private static final String ALL = "*";
    /** The client hands a message back after 15 minutes of work on it; not in a lab. */
    private static final int CONSUME_TIMEOUT_MINUTES = 30 * 24 * 60;
    private static final int GONE_AFTER_MESSAGES = 40;
    /** Messages of a queue; a pull brings up to 32. */
    private static final int SLOW_CACHE = 10;
    private static final long GONE_SECONDS = 60;

    private static final long POP_INVISIBLE_MILLIS = 10_000;

    private final String namesrv;
    private final List<String> masters;
    /** Held, as a consumer that nobody refers to could be collected. */
    private final List<Object> consumers = new ArrayList<>();
    private Thread gone;

    Groups(String namesrv, List<String> masters) {
        this.namesrv = namesrv;
        this.masters = masters;
    }

    void start(String group) throws Exception {
        switch (group) {
            case "g-fast": startFast(); break;
            case "g-two": startTwo(); break;
            case "g-slow": startSlow(); break;
            case "g-filter": startFilter(); break;
            case "g-stuck": startStuck(); break;
            case "g-hung": startHung(); break;
            case "g-broadcast": startBroadcast(); break;
            case "g-retry": startRetry(); break;
            case "g-dlq": startDlq(); break;
            case "g-idle": startIdle(); break;
            case "g-inconsistent": startInconsistent(); break;
            case "g-orderly": startOrderly(); break;
            case "g-pull": startPull(); break;
            case "g-gone": startGone(); break;
            case "g-pop": startPop(); break;
            case "g-pop-stuck": startPopStuck(); break;
            default: throw new IllegalArgumentException("no group " + group);
        }
        System.out.println("started " + group);
    }

    /** Keeps up. */
    private void startFast() throws MQClientException {
        start(consumer("g-fast", 0, Topics.ORDERS, ALL, 4), each(message -> true));
    }

    /** Keeps up, with queues on two brokers. */
    private void startTwo() throws MQClientException {
        start(consumer("g-two", 0, Topics.TWO, ALL, 4), each(message -> true));
    }

    /**
     * Takes 200 ms a message on 2 threads: 10 a second, so it falls behind above that.
     *
     * <p>Its cache is small: flow control holds back its pulls as soon as it is behind.
     */
    private void startSlow() throws MQClientException {
        DefaultMQPushConsumer consumer = consumer("g-slow", 0, Topics.ORDERS, ALL, 2);
        consumer.setPullThresholdForQueue(SLOW_CACHE);
        start(consumer, each(message -> {
            sleep(200);
            return true;
        }));
    }

    /** Takes one tag of three: two thirds of its lag are not its own. */
    private void startFilter() throws MQClientException {
        start(consumer("g-filter", 0, Topics.ORDERS, "A", 2), each(message -> true));
    }

    /**
     * Blocks forever on the first message of a queue and consumes the rest: one queue cannot commit.
     *
     * <p>Which message comes first to a thread does not follow from the order in which they were taken.
     */
    private void startStuck() throws MQClientException {
        AtomicBoolean blocked = new AtomicBoolean();
        DefaultMQPushConsumer consumer = consumer("g-stuck", 0, Topics.ORDERS, ALL, 4);
        consumer.setConsumeTimeout(CONSUME_TIMEOUT_MINUTES);
        start(consumer, each(message -> {
            if (message.getQueueOffset() == 0 && blocked.compareAndSet(false, true)) {
                System.out.println("g-stuck blocks on queue " + message.getQueueId()
                    + " offset " + message.getQueueOffset());
                blockForever();
            }
            return true;
        }));
    }

    /**
     * Never returns from any message, and never commits anything.
     *
     * <p>That takes an empty topic: where messages exist, the broker answers 0 to the first question
     * for an offset, and the client commits that. It also takes a message on each queue within the
     * first long poll (15 s), as after an empty one the client commits 0 too. So this returns when
     * every queue is held, and the caller then sends. A 4.9 broker answers 0 for an empty queue as
     * well (seen on 4.9.7), so there the client is kept from committing it.
     */
    void startHung() throws Exception {
        DefaultMQPushConsumer consumer = consumer("g-hung", 0, Topics.HUNG, ALL, 2);
        consumer.setConsumeTimeout(CONSUME_TIMEOUT_MINUTES);
        if (MQVersion.getVersionDesc(MQVersion.CURRENT_VERSION).startsWith("V4")) {
            consumer.setOffsetStore(new NeverCommits(consumer, "g-hung"));
        }
        start(consumer, each(message -> {
            blockForever();
            return true;
        }));
        int queues = consumer.fetchSubscribeMessageQueues(Topics.HUNG).size();
        while (held(consumer, Topics.HUNG) < queues) {
            Thread.sleep(50);
        }
        System.out.println("started g-hung");
    }

    private static long held(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
            .keySet().stream().filter(queue -> queue.getTopic().equals(topic)).count();
    }

    /** Two clients that each take every message and keep their offsets in files. */
    private void startBroadcast() throws MQClientException {
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = consumer("g-broadcast", i, Topics.BROADCAST, ALL, 2);
            consumer.setMessageModel(MessageModel.BROADCASTING);
            start(consumer, each(message -> true));
        }
    }

    /** Requests one in 40 messages again, twice, and then takes it. */
    private void startRetry() throws MQClientException {
        start(consumer("g-retry", 0, Topics.ORDERS, "C", 2), each(message ->
            message.getReconsumeTimes() >= 2 || Producers.numberOf(message) % 120 != 2));
    }

    /** Never takes one in 40 messages: after one more attempt it is a dead letter. */
    private void startDlq() throws MQClientException {
        DefaultMQPushConsumer consumer = consumer("g-dlq", 0, Topics.ORDERS, "B", 2);
        consumer.setMaxReconsumeTimes(1);
        start(consumer, each(message -> Producers.numberOf(message) % 120 != 1));
    }

    /** 10 clients on 8 queues: two get none. */
    private void startIdle() throws MQClientException {
        for (int i = 0; i < 10; i++) {
            start(consumer("g-idle", i, Topics.ORDERS, ALL, 1), each(message -> true));
        }
    }

    /** Two clients that want different tags: messages of either tag are lost to the group. */
    private void startInconsistent() throws MQClientException {
        start(consumer("g-inconsistent", 0, Topics.ORDERS, "A", 1), each(message -> true));
        start(consumer("g-inconsistent", 1, Topics.ORDERS, "B", 1), each(message -> true));
    }

    /** Consumes in order: locks its queues on the broker. */
    private void startOrderly() throws MQClientException {
        DefaultMQPushConsumer consumer = consumer("g-orderly", 0, Topics.ORDERED, ALL, 2);
        consumer.registerMessageListener(
            (MessageListenerOrderly) (messages, context) -> ConsumeOrderlyStatus.SUCCESS);
        consumer.start();
    }

    /** A lite pull consumer, which polls. */
    private void startPull() throws MQClientException {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("g-pull");
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("g-pull-0");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(Topics.ORDERS, ALL);
        consumer.start();
        consumers.add(consumer);
        daemon("g-pull", () -> {
            while (true) {
                consumer.poll(1000);
            }
        });
    }

    /** Consumes for a while and goes away: from then on its lag grows and nobody is online. */
    private void startGone() throws MQClientException {
        CountDownLatch enough = new CountDownLatch(GONE_AFTER_MESSAGES);
        DefaultMQPushConsumer consumer = consumer("g-gone", 0, Topics.ORDERS, ALL, 2);
        start(consumer, each(message -> {
            enough.countDown();
            return true;
        }));
        gone = daemon("g-gone", () -> {
            try {
                enough.await(GONE_SECONDS, TimeUnit.SECONDS);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
            consumer.shutdown();
            System.out.println("g-gone went away");
        });
    }

    /** Two clients that keep up, handed messages by POP. */
    private void startPop() throws Exception {
        Pop.of(namesrv, masters, Topics.ORDERS, "g-pop");
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = consumer("g-pop", i, Topics.ORDERS, ALL, 2);
            Pop.byBroker(consumer, POP_INVISIBLE_MILLIS);
            start(consumer, each(message -> true));
        }
    }

    /** Is handed messages by POP and acknowledges none: they come back as another topic's. */
    private void startPopStuck() throws Exception {
        Pop.of(namesrv, masters, Topics.ORDERS, "g-pop-stuck");
        DefaultMQPushConsumer consumer = consumer("g-pop-stuck", 0, Topics.ORDERS, ALL, 2);
        consumer.setConsumeTimeout(CONSUME_TIMEOUT_MINUTES);
        Pop.byBroker(consumer, POP_INVISIBLE_MILLIS);
        start(consumer, each(message -> {
            blockForever();
            return true;
        }));
    }

    /** Returns when the consumer of g-gone has gone; at once when that group does not run. */
    void awaitGone() throws InterruptedException {
        if (gone != null) {
            gone.join();
        }
    }

    private DefaultMQPushConsumer consumer(
            String group, int number, String topic, String tags, int threads)
            throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + "-" + number);
        consumer.setMqClientApiTimeout(Workload.PATIENCE_MILLIS);
        // Clients are 127.0.0.1@group-number on every machine.
        consumer.setClientIP("127.0.0.1");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(threads);
        consumer.setConsumeThreadMax(threads);
        consumer.subscribe(topic, tags);
        return consumer;
    }

    private void start(DefaultMQPushConsumer consumer, MessageListenerConcurrently listener)
            throws MQClientException {
        consumer.registerMessageListener(listener);
        consumer.start();
        consumers.add(consumer);
    }

    /** A listener with a predicate of whether the message is done, else it comes again in 1 s. */
    private static MessageListenerConcurrently each(Predicate<MessageExt> done) {
        return (messages, context) -> {
            if (messages.stream().allMatch(done)) {
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        };
    }

    private static Thread daemon(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static void blockForever() {
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
