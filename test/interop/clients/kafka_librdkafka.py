"""librdkafka, the client of kcat, Fluent Bit, Vector and most languages. Arguments: the broker, and a topic to which it sends with each compression, within transactions and without."""
import sys

from confluent_kafka import Producer

broker, topic = sys.argv[1:]
for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
    producer = Producer({"bootstrap.servers": broker, "compression.type": compression, "linger.ms": 50, "enable.idempotence": True})
    for n in range(500):
        producer.produce(topic, value=f'c_{compression},n={n} v={n},w="{"xy" * 50}"', key=str(n), headers={"h": b"1"})
    assert producer.flush(30) == 0, compression

producer = Producer({"bootstrap.servers": broker, "transactional.id": "plant"})
producer.init_transactions(30)
for name, end in (("committed", producer.commit_transaction), ("aborted", producer.abort_transaction)):
    producer.begin_transaction()
    for n in range(100):
        producer.produce(topic, value=f"{name},n={n} v={n}")
    producer.flush(30)
    end(30)
