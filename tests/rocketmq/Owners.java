import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Who owns which queue when real clients share them: three members of a group for each strategy.
 *
 * <p>Arguments: name server, topic, members separated by commas. Prints, once nothing has changed
 * for a while, a line for each strategy: its name and what each member holds, separated by tabs.
 */
final class Owners {
    private static final long PATIENCE_MILLIS = 90_000;
    private static final long QUIET_MILLIS = 6_000;

    /**
     * Groups with the prefix of RocketMQ's own, which monitoring leaves out: other tests look at
     * all groups of the same brokers.
     */
    private static final String GROUP = "CID_RMQ_SYS_OWNERS_";

    public static void main(String[] arguments) throws Exception {
        Map<String, List<DefaultMQPushConsumer>> groups = new LinkedHashMap<>();
        for (AllocateMessageQueueStrategy strategy : strategies()) {
            List<DefaultMQPushConsumer> members = new ArrayList<>();
            for (String member : arguments[2].split(",")) {
                members.add(start(arguments[0], arguments[1], member, strategy));
            }
            groups.put(strategy.getName(), members);
        }
        long end = System.currentTimeMillis() + PATIENCE_MILLIS;
        long changed = end;
        String last = shown(groups, arguments[1]);
        while (System.currentTimeMillis() < Math.min(end, changed + QUIET_MILLIS)) {
            Thread.sleep(200);
            String now = shown(groups, arguments[1]);
            if (!now.equals(last)) {
                last = now;
                changed = System.currentTimeMillis();
            }
        }
        System.out.println(last);
        groups.values().stream().flatMap(Collection::stream).forEach(DefaultMQPushConsumer::shutdown);
        System.exit(0);
    }

    private static List<AllocateMessageQueueStrategy> strategies() {
        AllocateMachineRoomNearby.MachineRoomResolver byLastLetter =
                new AllocateMachineRoomNearby.MachineRoomResolver() {
                    @Override
                    public String brokerDeployIn(MessageQueue queue) {
                        String broker = queue.getBrokerName();
                        return broker.substring(broker.length() - 1);
                    }

                    @Override
                    public String consumerDeployIn(String client) {
                        return client.substring(client.length() - 1);
                    }
                };
        return List.of(
                new AllocateMessageQueueAveragely(),
                new AllocateMessageQueueAveragelyByCircle(),
                new AllocateMessageQueueConsistentHash(),
                new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), byLastLetter));
    }

    private static DefaultMQPushConsumer start(
            String namesrv, String topic, String member, AllocateMessageQueueStrategy strategy)
            throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP + strategy.getName());
        consumer.setNamesrvAddr(namesrv);
        consumer.setAllocateMessageQueueStrategy(strategy);
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName(strategy.getName() + "-" + member);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, "*");
        MessageListenerConcurrently done =
                (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        consumer.registerMessageListener(done);
        consumer.start();
        return consumer;
    }

    private static String shown(Map<String, List<DefaultMQPushConsumer>> groups, String topic) {
        return groups.entrySet().stream()
                .map(group -> group.getKey() + "\t" + group.getValue().stream()
                        .map(member -> held(member, topic))
                        .collect(Collectors.joining("\t")))
                .collect(Collectors.joining("\n"));
    }

    private static String held(DefaultMQPushConsumer consumer, String topic) {
        TreeMap<MessageQueue, Boolean> queues = new TreeMap<>();
        consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
                .keySet().forEach(queue -> queues.put(queue, true));
        return consumer.buildMQClientId() + "=" + queues.keySet().stream()
                .filter(queue -> queue.getTopic().equals(topic))
                .map(queue -> queue.getBrokerName() + "/" + queue.getQueueId())
                .collect(Collectors.joining(","));
    }
}
