import java.util.List;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The topics, made on the brokers themselves so that their queue counts are known. */
final class Topics {
    /** What most groups read: tags A, B, C in turn, every 50th message with a delay. */
    static final String ORDERS = "lab_orders";
    /** Messages with a key, sent to the queue of the key. */
    static final String ORDERED = "lab_ordered";
    static final String BROADCAST = "lab_broadcast";
    /** On two brokers, where there are two. */
    static final String TWO = "lab_two";
    /** Read by g-hung alone; empty until that group waits for it. */
    static final String HUNG = "lab_hung";

    private static final int QUEUES = 8;
    private static final int HUNG_QUEUES = 4;
    private static final int READ_AND_WRITE = 6;
    private static final long ROUTE_SECONDS = 60;

    private Topics() {
    }

    static void create(String namesrv, List<String> masters) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Workload.PATIENCE_MILLIS);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("lab-admin");
        admin.start();
        try {
            String first = masters.get(0);
            for (String topic : List.of(ORDERS, ORDERED, BROADCAST)) {
                create(admin, first, topic, QUEUES);
            }
            create(admin, first, HUNG, HUNG_QUEUES);
            List<String> two = masters.subList(0, Math.min(2, masters.size()));
            for (String master : two) {
                create(admin, master, TWO, QUEUES);
            }
            for (String topic : List.of(ORDERS, ORDERED, BROADCAST, HUNG)) {
                awaitRoute(admin, topic, 1);
            }
            awaitRoute(admin, TWO, two.size());
        } finally {
            admin.shutdown();
        }
    }

    private static void create(DefaultMQAdminExt admin, String master, String topic, int queues)
            throws Exception {
        admin.createAndUpdateTopicConfig(master, new TopicConfig(topic, queues, queues, READ_AND_WRITE));
    }

    /** A broker registers a new topic at the name server a moment later. */
    private static void awaitRoute(DefaultMQAdminExt admin, String topic, int brokers)
            throws Exception {
        long end = System.nanoTime() + ROUTE_SECONDS * 1_000_000_000L;
        while (true) {
            try {
                if (admin.examineTopicRouteInfo(topic).getQueueDatas().size() >= brokers) {
                    return;
                }
            } catch (Exception notYet) {
                if (System.nanoTime() > end) {
                    throw notYet;
                }
            }
            if (System.nanoTime() > end) {
                throw new IllegalStateException("no route to " + topic);
            }
            Thread.sleep(100);
        }
    }
}
