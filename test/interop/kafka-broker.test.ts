/** Kafka itself, as the tests of sources and sinks need it: it starts, keeps what it took through SIGKILL, and has all its listeners. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KAFKA_VERSIONS, type KafkaSecurity, noKafka, startKafka } from './kafka-broker.ts'

const scram = (hash: string): Record<string, string> => ({
  'sasl.mechanism': `SCRAM-SHA-${hash}`,
  'sasl.jaas.config': 'org.apache.kafka.common.security.scram.ScramLoginModule required username="svc" password="secret";',
})
const plain = {
  'sasl.mechanism': 'PLAIN',
  'sasl.jaas.config': 'org.apache.kafka.common.security.plain.PlainLoginModule required username="svc" password="secret";',
}

for (const version of KAFKA_VERSIONS) {
  test(`Kafka ${version}`, { skip: noKafka(version), timeout: 300_000 }, async (t) => {
    const broker = await startKafka(version)
    t.after(() => broker.stop())
    await broker.createTopic('kept', 3, { 'max.message.bytes': 100_000 })
    await broker.produce('kept', ['one'])
    await broker.restart()
    const ways: KafkaSecurity[] = [
      { listener: 'ssl' },
      { listener: 'sasl_plaintext', settings: plain },
      { listener: 'sasl_plaintext', settings: scram('256') },
      { listener: 'sasl_ssl', settings: scram('512') },
    ]
    for (const way of ways) await broker.produce('kept', [JSON.stringify(way)], way)
    const read = await broker.consume('kept', ways[3])
    const values = read.map(({ value }) => `${value}`)
    assert.deepEqual(values.sort(), ['one', ...ways.map((way) => JSON.stringify(way))].sort())
    assert.ok(read.every(({ partition, offset, key, timestamp }) => partition < 3 && offset < 5 && key === null && timestamp > 1.7e12))
    const wrong = { listener: 'sasl_plaintext', settings: { ...plain, 'sasl.jaas.config': plain['sasl.jaas.config'].replace('secret', 'wrong') } } as const
    await assert.rejects(broker.produce('kept', ['no'], wrong), /Authentication failed/)
  })
}
