import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Clients that talk to the brokers themselves: static topics have no other. */
final class Remoting {
    private static final int PATIENCE_MILLIS = 30_000;

    private Remoting() {
    }

    static String send(String namesrv, String topic, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("lab-remoting-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(PATIENCE_MILLIS);
        producer.start();
        try {
            for (int i = 0; i < count; i++) {
                byte[] body = ("message " + i).getBytes(StandardCharsets.UTF_8);
                producer.send(new Message(topic, body));
            }
        } finally {
            producer.shutdown();
        }
        return String.valueOf(count);
    }

    /** Reads and commits at least so many messages, then leaves; returns how many. */
    static String read(String namesrv, String topic, String group, int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.setPullBatchSize(1);
        consumer.subscribe(topic, "*");
        consumer.start();
        int read = 0;
        try {
            long end = System.currentTimeMillis() + PATIENCE_MILLIS;
            while (read < count && System.currentTimeMillis() < end) {
                List<MessageExt> messages = consumer.poll(1000);
                read += messages.size();
                consumer.commit();
            }
        } finally {
            consumer.shutdown();
        }
        return String.valueOf(read);
    }
}
