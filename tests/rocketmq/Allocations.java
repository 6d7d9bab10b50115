import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What the client's own strategies give. Reads a case a line, its parts separated by tabs and their
 * items by commas: strategy, topic, virtual nodes, rooms, queues (broker/id), clients. Prints a line
 * for each: the queues of each client in Java's order of clients, separated by tabs.
 */
final class Allocations {

    public static void main(String[] arguments) throws Exception {
        BufferedReader cases =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            answers.println(answer(line.split("\t", -1)));
        }
        answers.flush();
    }

    private static String answer(String[] parts) {
        List<MessageQueue> queues = new ArrayList<>();
        for (String queue : items(parts[4])) {
            int cut = queue.lastIndexOf('/');
            int id = Integer.parseInt(queue.substring(cut + 1));
            queues.add(new MessageQueue(parts[1], queue.substring(0, cut), id));
        }
        AllocateMessageQueueStrategy strategy =
                strategy(parts[0], Integer.parseInt(parts[2]), items(parts[3]), queues);
        List<String> clients = new ArrayList<>(items(parts[5]));
        // As RebalanceImpl does before it asks.
        List<MessageQueue> sorted = new ArrayList<>(queues);
        Collections.sort(sorted);
        Collections.sort(clients);
        return clients.stream()
                .map(client -> client + "=" + shown(strategy.allocate("g", client, sorted, clients)))
                .collect(Collectors.joining("\t"));
    }

    private static AllocateMessageQueueStrategy strategy(
            String name, int virtualNodes, List<String> rooms, List<MessageQueue> queues) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash(virtualNodes);
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(new HashSet<>(rooms));
                return byRoom;
            case "CONFIG":
                AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
                byConfig.setMessageQueueList(queues);
                return byConfig;
            case "MACHINE_ROOM_NEARBY":
                return strategy("MACHINE_ROOM_NEARBY-AVG", virtualNodes, rooms, queues);
            default:
                String inner = name.substring("MACHINE_ROOM_NEARBY-".length());
                return new AllocateMachineRoomNearby(
                        strategy(inner, virtualNodes, rooms, queues), new BeforeTheFirstDash());
        }
    }

    /** A user's code, as RocketMQ's example has it. */
    private static final class BeforeTheFirstDash
            implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("-")[0];
        }

        @Override
        public String consumerDeployIn(String client) {
            return client.split("-")[0];
        }
    }

    private static List<String> items(String part) {
        return part.isEmpty() ? List.of() : Arrays.asList(part.split(","));
    }

    private static String shown(List<MessageQueue> queues) {
        return queues.stream()
                .map(queue -> queue.getBrokerName() + "/" + queue.getQueueId())
                .collect(Collectors.joining(","));
    }
}
