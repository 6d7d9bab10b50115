import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.store.RemoteBrokerOffsetStore;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.common.message.MessageQueue;

/** Requests offsets of the broker like any consumer, and never commits any. */
final class NeverCommits extends RemoteBrokerOffsetStore {

    NeverCommits(ClientConfig consumer, String group) {
        super(MQClientManager.getInstance().getOrCreateMQClientInstance(consumer), group);
    }

    @Override
    public void updateOffset(MessageQueue queue, long offset, boolean increaseOnly) {
        // What is never written down here is never committed.
    }
}
