import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Declares, fills and reads topics of a broker, one step after the other as its arguments name them. */
public class Topics {
    private static final int PATIENCE_MILLIS = 30_000;

    public static void main(String[] given) throws Exception {
        String namesrv = given[0];
        String master = given[1];
        for (int at = 2; at < given.length; at++) {
            String[] step = given[at].split(" ");
            switch (step[0]) {
                case "declare" -> declare(namesrv, master, step[1], number(step[2]), number(step[3]), number(step[4]));
                case "send" -> send(namesrv, step[1], step[2], number(step[3]), number(step[4]));
                case "read" -> read(namesrv, step[1], step[2], number(step[3]));
                default -> throw new IllegalArgumentException(given[at]);
            }
        }
        System.exit(0);
    }

    private static int number(String text) {
        return Integer.parseInt(text);
    }

    private static void declare(String namesrv, String master, String topic, int read, int write, int perm)
            throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(PATIENCE_MILLIS);
        admin.setNamesrvAddr(namesrv);
        admin.start();
        admin.createAndUpdateTopicConfig(master, new TopicConfig(topic, read, write, perm));
        admin.shutdown();
    }

    /** Sends as many messages to each of the first queues. */
    private static void send(String namesrv, String broker, String topic, int queues, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("topics-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(PATIENCE_MILLIS);
        producer.start();
        byte[] body = "message".getBytes(StandardCharsets.UTF_8);
        for (int queue = 0; queue < queues; queue++) {
            for (int i = 0; i < count; i++) {
                producer.send(new Message(topic, body), new MessageQueue(topic, broker, queue));
            }
        }
        producer.shutdown();
    }

    /** Reads and commits at least so many messages. */
    private static void read(String namesrv, String topic, String group, int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.setPullBatchSize(10);
        consumer.subscribe(topic, "*");
        consumer.start();
        int read = 0;
        long end = System.currentTimeMillis() + PATIENCE_MILLIS;
        while (read < count && System.currentTimeMillis() < end) {
            read += consumer.poll(1000).size();
            consumer.commitSync();
        }
        consumer.shutdown();
        System.out.println(read);
    }
}
