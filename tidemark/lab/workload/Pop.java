import java.lang.reflect.Method;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What 5.0 brought to hand out messages one by one, not queues; called by name, as 4.9 has none. */
final class Pop {
    /** Every client of the group may be handed messages of every queue. */
    private static final int ALL_QUEUES = -1;

    private Pop() {
    }

    /** Has the brokers hand messages of a topic to a group by POP. */
    static void of(String namesrv, List<String> masters, String topic, String group)
            throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Workload.PATIENCE_MILLIS);
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName("lab-pop");
        admin.start();
        try {
            Method set = method(DefaultMQAdminExt.class, "setMessageRequestMode");
            Class<?> mode = set.getParameterTypes()[3];
            Object pop = mode.getMethod("valueOf", String.class).invoke(null, "POP");
            for (String master : masters) {
                set.invoke(admin, master, topic, group, pop, ALL_QUEUES,
                    (long) Workload.PATIENCE_MILLIS);
            }
        } finally {
            admin.shutdown();
        }
    }

    /** Lets the brokers decide whether a consumer pulls or pops; after so long they hand out again. */
    static void byBroker(DefaultMQPushConsumer consumer, long invisibleMillis) throws Exception {
        method(DefaultMQPushConsumer.class, "setClientRebalance").invoke(consumer, false);
        method(DefaultMQPushConsumer.class, "setPopInvisibleTime").invoke(consumer, invisibleMillis);
    }

    private static Method method(Class<?> type, String name) throws NoSuchMethodException {
        for (Method each : type.getMethods()) {
            if (each.getName().equals(name)) {
                return each;
            }
        }
        throw new NoSuchMethodException("POP came with 5.0: " + type.getSimpleName() + "." + name);
    }
}
