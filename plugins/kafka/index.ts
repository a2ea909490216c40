import { CONNECTORS, type Connectors, definePlugin, type PointFormat, pointFormat, pointFormats } from 'svcdb'
import { configSchema, connectorsOf } from './config.ts'
import { KafkaConnector } from './connector.ts'
import { kafkaMetrics } from './metrics.ts'
import { addSinks } from './sink/wiring.ts'

export default definePlugin({
  id: 'kafka',
  summary: 'Takes points from Kafka, offsets committed when they are durable, and sends changes to it',
  stability: 'beta',
  config: configSchema,
  needsSection: true,
  includes: ['connectors'],
  requires: [CONNECTORS],
  capabilities: ['points'],
  setup(svc, config) {
    const connectors: KafkaConnector[] = []
    const metrics = kafkaMetrics(svc.metrics, () => connectors)
    const listing = svc.use<Connectors>(CONNECTORS)
    const configs = connectorsOf(config)
    for (const each of configs) {
      if (!svc.provided.has(pointFormat(each.format)))
        throw new Error(
          `cannot read format "${each.format}" of ${each.name}: the plugins of this node read ${pointFormats(svc.provided).join(', ') || 'none'}; select the plugin of the format, such as line_protocol, native (json), remote_write (prometheus_remote_write) or otlp`,
        )
      const connector = new KafkaConnector(svc, each, metrics, async () => (await import('./kafkajs-client.ts')).kafkajs)
      listing.add(connector)
      connectors.push(connector)
    }
    addSinks(svc, config.sink, listing)
    svc.start(() => {
      for (const [i, connector] of connectors.entries()) {
        const each = configs[i]
        const format = svc.find<PointFormat>(pointFormat(each.format))
        if (format?.defaults === false && (each.tags_from_topic.length > 0 || Object.keys(each.topic_measurement_map).length > 0))
          throw new Error(
            `cannot use tags_from_topic or topic_measurement_map of ${each.name}: points of format "${each.format}" name their measurements and tags`,
          )
        // A group may bring a record again, or to another member, without those before it.
        if (format?.ordered === true)
          throw new Error(`cannot use format "${each.format}" of ${each.name}: its messages mean something only with those before them; take them by mqtt`)
        connector.start(format)
      }
    })
    // Each node is a member of the group, which spreads partitions itself, until it is decommissioned.
    for (const connector of connectors) svc.own(connector.name, ({ signal }) => connector.run(signal), { everywhere: true })
    svc.stop(async () => {
      await Promise.all(connectors.map((connector) => connector.stop()))
    })
  },
})
